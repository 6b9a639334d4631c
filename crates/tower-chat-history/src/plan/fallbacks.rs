//! Planning a call, and the fallbacks for one that does not fit.

use super::{FitBudget, FitError, Plan, PlanInput, plan_once};
use crate::budget::{PromptTokens, TrimReason};

/// Plans a call. If it does not fit, it is planned again with less beside the window:
///
/// 1. with the room that is reserved for a summary,
/// 2. with room for the stored summary alone,
/// 3. without the stored summary,
/// 4. and all of this with counts that are not corrected: a call that is refused could never correct the factor.
///
/// The first plan that fits is taken. The error is that of the last one.
pub(crate) fn plan(input: &PlanInput<'_>) -> Result<Plan, FitError> {
    let Some(budget) = input.budget else { return plan_once(input) };
    let planned = with_less_for_summaries(input, &budget);
    if !does_not_fit(&planned) || budget.limits.ratio <= 1.0 {
        return planned;
    }
    with_less_for_summaries(input, &FitBudget { limits: budget.limits.as_counted(), ..budget })
}

fn with_less_for_summaries(input: &PlanInput<'_>, budget: &FitBudget<'_>) -> Result<Plan, FitError> {
    let with_room = |room: u64| {
        let parts = PromptTokens { summary: room, ..budget.parts };
        PlanInput { budget: Some(FitBudget { parts, ..*budget }), ..*input }
    };
    let reserved = plan_once(&with_room(budget.parts.summary));
    if !does_not_fit(&reserved) {
        return reserved;
    }
    // A summary to come gives way to what has to be sent.
    let stored = plan_once(&with_room(input.summary_tokens));
    if !does_not_fit(&stored) || input.summary.is_none() {
        return stored;
    }
    // A summary is worth less than the call.
    let mut plan = plan_once(&PlanInput { summary: None, summary_tokens: 0, ..with_room(0) })?;
    plan.fit.trimming.left_out_summary = true;
    plan.fit.trimming.reason.get_or_insert(TrimReason::Tokens);
    Ok(plan)
}

const fn does_not_fit(planned: &Result<Plan, FitError>) -> bool {
    matches!(planned, Err(FitError::DoesNotFit(_)))
}

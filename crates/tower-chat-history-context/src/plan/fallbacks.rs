//! Planning a call, and the fallbacks for a call that does not fit.

use super::{FitBudget, FitError, Plan, PlanInput, input::continues_turn, plan_once};
use crate::budget::{PromptTokens, TrimReason};

/// Plans a call. Each step is tried only if the call does not fit in the step before:
///
/// 1. with the room that is reserved for recalled messages, and with the room for a summary,
/// 2. without room for recalled messages,
/// 3. within a turn: without the recalled messages of earlier exchanges,
/// 4. with room for the stored summary only,
/// 5. without the stored summary,
/// 6. all of these steps without the correction factor. If a wrong factor made all calls fail, no provider's report
///    could ever correct it.
///
/// Spare tokens are used only for a prompt from which nothing is left out: they are those of its beginning. If anything
/// has to be left out, the call is planned without them.
///
/// Within a turn whose reasoning is bound to its prompts, only the room for a future summary is given up.
///
/// Returns the first plan that fits, or the error of the last step.
pub fn plan(input: &PlanInput<'_>) -> Result<Plan, FitError> {
    let Some(budget) = input.budget else { return plan_once(input) };
    if let Some(plan) = with_spare(input, &budget) {
        return Ok(plan);
    }
    let planned = with_less_for_summaries(input, &budget);
    if !does_not_fit(&planned) || budget.limits.ratio <= 1.0 {
        return planned;
    }
    with_less_for_summaries(input, &FitBudget { limits: budget.limits.as_counted(), ..budget })
}

/// Plans a call with the spare tokens. Returns `None` if there are none, or if something has to be left out.
fn with_spare(input: &PlanInput<'_>, budget: &FitBudget<'_>) -> Option<Plan> {
    let (limits, raised_by) = budget.limits.raised(input.spare);
    if raised_by == 0 {
        return None;
    }
    let mut plan = with_less_for_summaries(input, &FitBudget { limits, ..*budget }).ok()?;
    // The raised limits are those of this prompt only.
    if let Some(planned) = &mut plan.budget {
        planned.limits = budget.limits;
    }
    plan.raised_by = raised_by;
    plan.fit.trimming.reason.is_none().then_some(plan)
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
    if let Err(FitError::DoesNotFit(error)) = &reserved
        && error.turn_is_bound
    {
        // Without anything that earlier prompts of the turn contained, its reasoning would not be valid.
        return plan_once(&with_room(input.summary_tokens));
    }
    if input.recall_reserve.is_some() {
        return with_less_for_summaries(&PlanInput { recall_reserve: None, ..*input }, budget);
    }
    // If the input opens a turn, nothing of the window has to be sent, so recalled messages are not the reason.
    if continues_turn(input.input) && input.history.has_recalled() && !input.leaves_out_recalled {
        let mut planned = with_less_for_summaries(&PlanInput { leaves_out_recalled: true, ..*input }, budget);
        if let Ok(plan) = &mut planned {
            plan.fit.trimming.left_out_recalled = true;
            plan.fit.trimming.reason.get_or_insert(TrimReason::Tokens);
        }
        return planned;
    }
    // The required messages are more important than room for a future summary.
    let stored = plan_once(&with_room(input.summary_tokens));
    if !does_not_fit(&stored) || input.summary.is_none() {
        return stored;
    }
    // The call is more important than the summary.
    let mut plan = plan_once(&PlanInput { summary: None, summary_tokens: 0, ..with_room(0) })?;
    plan.fit.trimming.left_out_summary = true;
    plan.fit.trimming.reason.get_or_insert(TrimReason::Tokens);
    Ok(plan)
}

const fn does_not_fit(planned: &Result<Plan, FitError>) -> bool {
    matches!(planned, Err(FitError::DoesNotFit(_)))
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{
        Exchange, ExchangeId, Incarnation, LoadLimit, Message, Recorded, Revision, Seq, Window,
    };

    use super::*;
    use crate::{
        budget::{Limits, Watermark, Watermarks},
        plan::{Conditions, History, LoadedWindow, OnOpenTurn},
    };

    /// Plans a prompt of one turn of 20 tokens and an input of 10. The stored summary has 30 tokens, and 50 are
    /// reserved for a summary. Returns the plan and the room for a summary, or the required size.
    fn planned(limit: u64, ratio: f64) -> Result<(Plan, u64), u64> {
        planned_with_spare(limit, ratio, 0)
    }

    fn planned_with_spare(limit: u64, ratio: f64, spare: u64) -> Result<(Plan, u64), u64> {
        let turn = [Message::user("u"), Message::assistant("a")];
        let exchange = Recorded::new(Seq::FIRST, Exchange::new(ExchangeId::generate(), turn));
        let window = Window::new(Revision::new(Incarnation::random(), 1), None, vec![exchange], false);
        let window = LoadedWindow::read(window).unwrap();
        let (summary, input) = (Message::system("s"), [Message::user("u")]);
        let cost = |_: &Message| 10;
        let parts = PromptTokens { input: 10, summary: 50, ..PromptTokens::default() };
        let limits = Limits { context: limit, prompt: limit, reserve: 0, least_reply: None, ratio };
        let full = Watermark::Percent(100);
        let watermarks = Watermarks { high: full, low: full };
        let budget = FitBudget { limits, watermarks, clear: None, trimmer: None, stores: false, parts, cost: &cost };
        let input = PlanInput {
            history: History::Window(&window),
            summary: Some(&summary),
            summary_tokens: 30,
            input: &input,
            instead: None,
            limit: LoadLimit::default(),
            on_open_turn: OnOpenTurn::Supersede,
            spare,
            recall_reserve: None,
            recalls_others: false,
            leaves_out_recalled: false,
            conditions: Conditions::unknown(),
            budget: Some(budget),
        };
        match plan(&input) {
            Ok(plan) => {
                let room = plan.budget.map_or(0, |budget| budget.parts.summary);
                Ok((plan, room))
            }
            Err(FitError::DoesNotFit(error)) => Err(error.parts.total()),
            Err(FitError::Input(error)) => unreachable!("{error}"),
        }
    }

    #[test]
    fn a_call_that_does_not_fit_is_planned_with_less_for_summaries() {
        let (plan, room) = planned(80, 1.0).unwrap();
        assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (3, 30, 50));
        let (plan, room) = planned(40, 1.0).unwrap();
        assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (1, 30, 30), "no room for a future summary");
        let (plan, room) = planned(30, 1.0).unwrap();
        assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (2, 0, 0));
        assert!(plan.fit.trimming.left_out_summary);
        assert_eq!(planned(9, 1.0).unwrap_err(), 10, "the input alone");
    }

    #[test]
    fn spare_tokens_are_used_only_if_nothing_is_left_out() {
        let (plan, room) = planned_with_spare(64, 1.0, 16).unwrap();
        assert_eq!((plan.fit.window.len(), room, plan.fit.trimming.reason), (3, 50, None), "80 tokens fit");
        assert_eq!(plan.raised_by, 16);
        assert_eq!(plan.budget.unwrap().limits.max_prompt(0), 64, "other readers see the plain limit");
        let (plan, room) = planned_with_spare(64, 1.0, 15).unwrap();
        assert_eq!((plan.fit.window.len(), room), (1, 50), "the turn is left out");
        assert_eq!(plan.raised_by, 0);
        assert_eq!(planned_with_spare(9, 1.0, 0).unwrap_err(), 10);
    }

    #[test]
    fn the_correction_factor_refuses_no_call() {
        let (plan, _) = planned(10, 1.5).unwrap();
        assert!((plan.budget.unwrap().limits.ratio - 1.0).abs() < f64::EPSILON);
    }
}

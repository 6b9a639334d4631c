//! Summaries that a call waits for.

use tower_chat_history_core::Cut;

use super::{
    super::summaries::{Job, SummaryWorker},
    call::Call,
    history::{LoadedHistory, load},
    plan::{PlannedTurn, plan_turn},
};
use crate::{
    context::plan::{LoadedWindow, Plan, first_uncovered},
    error::HistoryError,
    summary::{SummarizeWhen, SummaryReport},
};

/// Returns the summary that the call must wait for. There is one if exchanges that no summary covers leave the window.
pub(super) fn wanted(call: &Call, loaded: &LoadedHistory, plan: &Plan) -> Option<Job> {
    let summaries = call.summaries()?;
    let options = &summaries.configuration().options;
    let window = loaded.window.as_ref()?;
    // If the input continues a turn, only rounds of this turn leave the window, and rounds are not summarized.
    if plan.continues.is_some() || summaries.is_paused(&call.conversation) {
        return None;
    }

    let cut = match options.when {
        SummarizeWhen::BeforeEveryCall => cut_of_all_exchanges(window)?,
        // If only the load limit left exchanges out, they can be summarized after the turn.
        SummarizeWhen::AfterReply { .. } if plan.fit.evicted.messages == 0 => return None,
        SummarizeWhen::AfterReply { .. } | SummarizeWhen::BeforeCall => plan.fit.cut.clone()?,
    };
    let frame = call.summary_frame().ok()?;
    let room = plan.budget.map_or(u64::MAX, |budget| budget.room_for_summary().saturating_sub(frame));
    if room < u64::from(options.least_room) || cut.window_start <= first_uncovered(&cut, window) {
        return None;
    }

    Some(Job {
        conversation: call.conversation.clone(),
        window: window.clone(),
        cut,
        counting: call.counting.clone(),
        dialect: call.dialect,
        max_tokens: options.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX)),
        waited_for: true,
        span: call.span.clone(),
    })
}

/// Makes the summary that a call waits for, and plans the call again with it. If the summary is not made, the plan
/// stays as it is. Returns the summary's report, if there is one.
pub(super) async fn summarize(
    call: &Call,
    job: Job,
    loaded: &mut LoadedHistory,
    planned: &mut Box<PlannedTurn>,
) -> Result<Option<SummaryReport>, HistoryError> {
    let Some(summaries) = call.summaries() else { return Ok(None) };
    if !job.is_storable() {
        return Ok(Some(summarize_all(summaries, call, &job, loaded, planned).await));
    }

    let Some(report) = summaries.wait_for(job).await else { return Ok(None) };
    if report.is_summarized() {
        // The plan without the summary is valid, so an error here must not fail the call.
        match load_and_plan(call).await {
            Ok((reloaded, replanned)) => {
                *loaded = reloaded;
                *planned = replanned;
            }
            Err(error @ HistoryError::AlreadyRecorded(_)) => return Err(error),
            Err(error) => {
                // Other errors, such as an input that does not fit, contain ids, which must not be logged.
                let cause = if error.is_load() { error.to_string() } else { error.kind().to_owned() };
                let kind = error.kind();
                tracing::warn!(error.type = kind, error = cause, "a summary was stored, but the call continues without it");
            }
        }
    }
    Ok(Some(report))
}

/// Makes a summary of the whole window, and plans the call with this [pending summary](PlannedTurn::hold_summary).
async fn summarize_all(
    summaries: &SummaryWorker,
    call: &Call,
    job: &Job,
    loaded: &mut LoadedHistory,
    planned: &mut Box<PlannedTurn>,
) -> SummaryReport {
    let (report, cut) = summaries.make_pending(job).await;
    let Some(cut) = cut else { return report };

    let summarized = loaded.summarized(cut.clone());
    if let Ok(mut replanned) = plan_turn(call, &summarized).await {
        replanned.hold_summary(cut, job.window.cut(), &planned.plan);
        *loaded = summarized;
        *planned = replanned;
    }
    report
}

async fn load_and_plan(call: &Call) -> Result<(LoadedHistory, Box<PlannedTurn>), HistoryError> {
    let loaded = load(call).await?;
    let planned = plan_turn(call, &loaded).await?;
    Ok((loaded, planned))
}

/// Returns a cut whose window starts after all exchanges. Returns `None` if there are no exchanges.
fn cut_of_all_exchanges(window: &LoadedWindow) -> Option<Cut> {
    let end = window.exchanges.last()?.seq.next();
    let mut cut = window.cut().cloned().unwrap_or_default();
    cut.window_start = end;
    cut.rounds_start = end;
    Some(cut)
}

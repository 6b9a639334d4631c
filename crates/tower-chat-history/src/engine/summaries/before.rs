//! Summaries that a call waits for.

use std::sync::Arc;

use tokio::time::timeout;
use tower_chat_history_core::Cut;
use tracing::{Instrument as _, Span};

use super::{
    super::turn::{Call, LoadedHistory, PlannedTurn},
    Job, SummaryWorker, is_stored,
};
use crate::{
    context::plan::{LoadedWindow, first_uncovered},
    error::HistoryError,
    summary::{SummarizeWhen, SummaryOutcome, SummaryReport},
    telemetry::{self, WaitFor},
};

impl SummaryWorker {
    /// Returns the summary that the call must wait for. There is one if exchanges that no summary covers leave the
    /// window.
    pub(in crate::engine) fn wanted(&self, call: &Call, loaded: &LoadedHistory, planned: &PlannedTurn) -> Option<Job> {
        let (window, plan) = (loaded.window.as_ref()?, &planned.plan);
        // If the input continues a turn, only rounds of this turn leave the window, and rounds are not summarized.
        if plan.continues.is_some() || self.backoff.is_paused(&call.conversation) {
            return None;
        }
        let cut = match self.summaries.options.when {
            SummarizeWhen::BeforeEveryCall => cut_of_all_exchanges(window)?,
            // If only the load limit left exchanges out, they can be summarized after the turn.
            SummarizeWhen::AfterReply { .. } if plan.fit.evicted.messages == 0 => return None,
            SummarizeWhen::AfterReply { .. } | SummarizeWhen::BeforeCall => plan.fit.cut.clone()?,
        };
        let frame = call.summary_frame().ok()?;
        let room = plan.budget.map_or(u64::MAX, |budget| budget.room_for_summary().saturating_sub(frame));
        let leaves = cut.window_start > first_uncovered(&cut, window);
        (leaves && room >= u64::from(self.summaries.options.least_room)).then(|| Job {
            conversation: call.conversation.clone(),
            window: window.clone(),
            cut,
            counting: call.counting.clone(),
            dialect: call.dialect,
            max_tokens: self.summaries.options.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX)),
            waited_for: true,
            span: call.span.clone(),
        })
    }

    /// Makes the summary that a call waits for, and plans the call again with it. If the summary is not made, the
    /// plan stays as it is.
    pub(in crate::engine) async fn before_call(
        &self,
        call: &Call,
        job: Job,
        loaded: &mut LoadedHistory,
        planned: &mut PlannedTurn,
    ) -> Result<(), HistoryError> {
        if is_stored(&job.cut, &job.window) {
            self.stored_before_call(call, job, loaded, planned).await
        } else {
            self.pending_before_call(call, &job, loaded, planned).await;
            Ok(())
        }
    }

    /// Stores the summary, loads the conversation again, and plans the call with it.
    async fn stored_before_call(
        &self,
        call: &Call,
        job: Job,
        loaded: &mut LoadedHistory,
        planned: &mut PlannedTurn,
    ) -> Result<(), HistoryError> {
        let Some(report) = self.wait_for(call, job).await else { return Ok(()) };
        if report.is_summarized() {
            // The plan without the summary is valid, so an error here must not fail the call.
            match load_and_plan(call).await {
                Ok((reloaded, replanned)) => (*loaded, *planned) = (reloaded, *replanned),
                Err(error @ HistoryError::AlreadyRecorded(_)) => return Err(error),
                Err(error) => {
                    // Other errors, such as an input that does not fit, contain ids, which must not be logged.
                    let cause = if error.is_load() { error.to_string() } else { error.kind().to_owned() };
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = cause, "a summary was stored, but the call continues without it");
                }
            }
        }
        planned.summary = Some(report);
        Ok(())
    }

    /// Makes a summary of the whole window. It cannot be stored yet: a window must start at a stored exchange, and
    /// the first exchange after the summary is that of this call. So it is stored with that exchange.
    async fn pending_before_call(&self, call: &Call, job: &Job, loaded: &mut LoadedHistory, planned: &mut PlannedTurn) {
        let span = telemetry::summarize(&call.span, job.from());
        let (report, cut) = self.make(job).instrument(span.clone()).await;
        // A partial summary is not used: the exchanges that it does not cover would be missing, because the window is
        // empty.
        let whole = cut.filter(|_| matches!(report.outcome, SummaryOutcome::Stored));
        let outcome = if whole.is_some() { SummaryOutcome::Made } else { report.outcome.clone() };
        let report = SummaryReport { outcome, ..report };
        self.report(&report, &span);
        drop(span);
        if let Some(cut) = whole {
            let emptied = loaded.emptied(cut.clone());
            if let Ok(mut replanned) = call.plan(&emptied).await {
                replanned.plan.superseded = planned.plan.superseded;
                replanned.plan.fit.cut = Some(cut.clone());
                replanned.history.replaced = job.window.cut().cloned().map(Box::new);
                replanned.pending = Some(cut);
                (*loaded, *planned) = (emptied, *replanned);
            }
        }
        planned.summary = Some(report);
    }

    /// Waits for the conversation's running summary, or starts this one and waits for it.
    async fn wait_for(&self, call: &Call, job: Job) -> Option<SummaryReport> {
        let worker = self.clone();
        let work = async move { Some(Arc::new(worker.make_and_store(&job).await)) };
        let (running, span) = match self.running.run(&call.conversation, work) {
            Ok(running) => (running, Span::none()),
            // The running summary belongs to another turn and has its span there, so this turn gets a span of the wait.
            Err(running) => (running, telemetry::wait(&call.span, WaitFor::Summary)),
        };
        let waited = timeout(self.summaries.options.timeout, running.output());
        let waited = waited.instrument(span).await.ok()??;
        Some(SummaryReport { waited_for: true, ..(*waited).clone() })
    }
}

async fn load_and_plan(call: &Call) -> Result<(LoadedHistory, Box<PlannedTurn>), HistoryError> {
    let loaded = call.load_history().await?;
    let planned = call.plan(&loaded).await?;
    Ok((loaded, planned))
}

/// Returns a cut whose window starts after all exchanges. Returns `None` if there are no exchanges.
fn cut_of_all_exchanges(window: &LoadedWindow) -> Option<Cut> {
    let end = window.exchanges.last()?.seq.next();
    let mut cut = window.cut().cloned().unwrap_or_default();
    (cut.window_start, cut.rounds_start) = (end, end);
    Some(cut)
}

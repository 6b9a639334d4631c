//! Summaries that a call waits for.

use std::sync::Arc;

use tower_chat_history_context::plan::first_uncovered;
use tower_chat_history_core::{Compaction, Cut, Window};
use tracing::{Instrument as _, Span};

use super::{
    super::{
        timer,
        turn::{Call, LoadedHistory, PlannedTurn},
    },
    Job, SummaryWorker, is_stored,
};
use crate::{
    error::HistoryError,
    summary::{SummarizeWhen, SummaryOutcome, SummaryReport},
    telemetry::{self, WaitFor},
};

impl SummaryWorker {
    /// Returns the summary that a call should wait for: exchanges leave the window that none covers.
    pub(in crate::engine) fn wanted(&self, call: &Call, loaded: &LoadedHistory, planned: &PlannedTurn) -> Option<Job> {
        let (window, plan) = (loaded.window.as_ref()?, &planned.plan);
        // Within a turn only rounds leave the window, which no summary covers.
        if plan.continues.is_some() || self.backoff.is_paused(&call.conversation) {
            return None;
        }
        let cut = match self.summaries.when {
            SummarizeWhen::BeforeEveryCall => everything(window)?,
            // What only the load limit cut off can wait for the end of the turn.
            SummarizeWhen::AfterReply { .. } if plan.fit.evicted.messages == 0 => return None,
            SummarizeWhen::AfterReply { .. } | SummarizeWhen::BeforeCall => plan.fit.cut.clone()?,
        };
        let frame = call.counting.message(&self.store.options().context.summary_format.message(""));
        let room = plan.budget.map_or(u64::MAX, |budget| budget.room_for_summary().saturating_sub(frame));
        let leaves = cut.window_start > first_uncovered(&cut, window);
        (leaves && room >= u64::from(self.summaries.least_room)).then(|| Job {
            conversation: call.conversation.clone(),
            window: window.clone(),
            cut,
            counting: call.counting.clone(),
            max_tokens: self.summaries.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX)),
            waited_for: true,
            span: call.span.clone(),
        })
    }

    /// Gives a call the summary that it should not go on without: plans anew with it, or leaves the plan as it is.
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

    /// Stores the summary, and plans from the log that has it.
    async fn stored_before_call(
        &self,
        call: &Call,
        job: Job,
        loaded: &mut LoadedHistory,
        planned: &mut PlannedTurn,
    ) -> Result<(), HistoryError> {
        let Some(report) = self.wait_for(call, job).await else { return Ok(()) };
        if report.is_summarized() {
            // It was good enough without the summary: what fails now must not fail the call.
            match plan_anew(call).await {
                Ok(anew) => (*loaded, *planned) = anew,
                Err(error @ HistoryError::AlreadyRecorded(_)) => return Err(error),
                Err(error) => {
                    // What else it may be (an input that does not fit) names ids.
                    let cause = if error.is_load() { error.to_string() } else { error.kind().to_owned() };
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = cause, "a summary is stored, and the call goes on without it");
                }
            }
        }
        planned.summary = Some(report);
        Ok(())
    }

    /// Makes the summary that is stored with the call's exchange: before that, the window has nothing to start with.
    async fn pending_before_call(&self, call: &Call, job: &Job, loaded: &mut LoadedHistory, planned: &mut PlannedTurn) {
        let span = telemetry::summarize(&call.span, job.from());
        let (report, cut) = self.make(job).instrument(span.clone()).await;
        // A part of it would leave out what comes after it.
        let whole = cut.filter(|_| matches!(report.outcome, SummaryOutcome::Stored));
        let outcome = if whole.is_some() { SummaryOutcome::Made } else { report.outcome.clone() };
        let report = SummaryReport { outcome, ..report };
        self.report(&report, &span);
        drop(span);
        if let Some(cut) = whole {
            let emptied = loaded.emptied(Compaction::new(job.window.compaction_version(), cut.clone()));
            if let Ok(mut anew) = call.plan(&emptied).await {
                anew.plan.superseded = planned.plan.superseded;
                anew.plan.fit.cut = Some(cut.clone());
                anew.pending = Some(cut);
                (*loaded, *planned) = (emptied, anew);
            }
        }
        planned.summary = Some(report);
    }

    /// Waits for the summary of the conversation that is under way, or for this one.
    async fn wait_for(&self, call: &Call, job: Job) -> Option<SummaryReport> {
        let worker = self.clone();
        let work = async move { Some(Arc::new(worker.make_and_store(&job).await)) };
        let (running, span) = match self.run(&call.conversation, work) {
            Ok(running) => (running, Span::none()),
            // It is made for another turn, and seen there.
            Err(running) => (running, telemetry::wait(&call.span, WaitFor::Summary)),
        };
        let waited = timer::timeout(Some(self.summaries.timeout), running);
        let waited = waited.instrument(span).await.ok()??;
        Some(SummaryReport { waited_for: true, ..(*waited).clone() })
    }
}

async fn plan_anew(call: &Call) -> Result<(LoadedHistory, PlannedTurn), HistoryError> {
    let loaded = call.load_history().await?;
    let planned = call.plan(&loaded).await?;
    Ok((loaded, planned))
}

/// Returns a cut before which all exchanges stand.
fn everything(window: &Window) -> Option<Cut> {
    let end = window.exchanges.last()?.seq.next();
    let mut cut = window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    (cut.window_start, cut.rounds_start) = (end, end);
    Some(cut)
}

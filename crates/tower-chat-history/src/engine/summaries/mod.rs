//! Having what leaves the window summarized: after the reply, or before a call.

mod background;
mod job;
mod pause;

use tower_chat_history_core::{Compaction, Cut, Window};

use self::job::Job;
pub(super) use self::{
    background::{Summarizing, TurnEnd},
    pause::Pauses,
};
use super::{
    Engine,
    begin::{Call, Planned, Seen},
    timer,
};
use crate::{
    HistoryError,
    summary::{SummarizeWhen, SummaryOutcome, SummaryReport},
};

impl Engine {
    /// Gives a call the summary that it should not go on without: plans anew with it, or leaves the plan as it is.
    pub(super) async fn summarize_before(
        &self,
        call: &Call,
        seen: &mut Seen,
        planned: &mut Planned,
        release: impl FnOnce() + Send,
    ) -> Result<(), HistoryError> {
        let Some((cut, window)) = self.wanted(call, seen, planned) else { return Ok(()) };
        release();
        let report = if window_is_stored(&cut, &window) {
            let report = self.wait_or_run(call, cut, &window).await;
            if report.as_ref().is_some_and(SummaryReport::is_summarized) {
                *seen = self.look(call).await?;
                *planned = self.decide(call, seen).await?;
            }
            report
        } else {
            let (report, cut) = self.run_for(call, cut, &window).await;
            if let Some(cut) = cut {
                // It is stored with this call's exchange: before that, the window has nothing to start with.
                seen.starts_empty(Compaction::new(window.compaction_version(), cut.clone()));
                *planned = self.decide(call, seen).await?;
                planned.plan.fit.cut = Some(cut);
            }
            report
        };
        planned.summary = report;
        Ok(())
    }

    /// What the window is to become, where a call should wait for a summary: something leaves it that none covers.
    fn wanted(&self, call: &Call, seen: &Seen, planned: &Planned) -> Option<(Cut, Window)> {
        let summaries = self.options().summaries.as_ref()?;
        let window = seen.window.as_ref()?;
        let cut = match summaries.when {
            SummarizeWhen::BeforeEveryCall if planned.plan.continues.is_some() => return None,
            SummarizeWhen::BeforeEveryCall => everything(window)?,
            SummarizeWhen::AfterReply { .. } | SummarizeWhen::BeforeCall => planned.plan.fit.cut.clone()?,
        };
        let has_room = planned.basis.is_none_or(|basis| basis.room_for_summary() >= u64::from(summaries.least_room));
        let leaves = cut.window_start > cut.covers_to();
        (leaves && has_room && !self.shared.pauses.is_paused(&call.conversation)).then(|| (cut, window.clone()))
    }

    /// Waits for the summary that is being made of the conversation, or makes one and stores it.
    async fn wait_or_run(&self, call: &Call, cut: Cut, window: &Window) -> Option<SummaryReport> {
        let summaries = self.options().summaries.as_ref()?;
        if let Some(running) = self.shared.summarizing.of(&call.conversation) {
            let waited = timer::timeout(call.runtime.as_ref(), Some(summaries.timeout), running).await.ok()??;
            return Some(SummaryReport { waited_for: true, ..(*waited).clone() });
        }
        let job = Job { conversation: &call.conversation, window, cut, counting: &call.counting, waited_for: true };
        Some(self.make_and_store(summaries, job, call.runtime.as_ref()).await)
    }

    /// Makes a summary that is stored later.
    async fn run_for(&self, call: &Call, cut: Cut, window: &Window) -> (Option<SummaryReport>, Option<Cut>) {
        let Some(summaries) = self.options().summaries.as_ref() else { return (None, None) };
        let job = Job { conversation: &call.conversation, window, cut, counting: &call.counting, waited_for: true };
        let (report, cut) = self.make(summaries, &job, call.runtime.as_ref()).await;
        self.told(summaries, &report);
        // A part of it would leave out what is behind it.
        let whole = cut.filter(|_| matches!(report.outcome, SummaryOutcome::Stored));
        (Some(report), whole)
    }
}

/// Everything that is stored.
fn everything(window: &Window) -> Option<Cut> {
    let end = window.exchanges.last()?.seq.next();
    let mut cut = window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    (cut.window_start, cut.rounds_start) = (end, end);
    Some(cut)
}

/// Whether a cut's window starts at an exchange that is stored.
fn window_is_stored(cut: &Cut, window: &Window) -> bool {
    window.exchanges.last().is_some_and(|last| cut.window_start <= last.seq)
}

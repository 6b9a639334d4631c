//! Having what leaves the window summarized: after the reply, or before a call.

mod background;
mod job;
mod pause;
mod running;

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, CompactOutcome, Compaction, CompactionError, CompactionVersion, ConversationId, Cut, Seq, StoreError,
    Window,
};
use tracing::{Instrument as _, Span};

use self::job::{Job, PAGE};
pub(super) use self::{background::TurnEnd, job::first_uncovered, pause::Pauses, running::Summarizing};
use super::{
    Engine,
    call::{Call, Planned, Seen},
    last_seen::Sighting,
    timer,
};
use crate::{
    HistoryError,
    error_chain::chain,
    summary::{Summaries, SummarizeWhen, SummaryOutcome, SummaryReport},
    telemetry::{self, WaitFor},
};

/// A summary that is stored with the exchange of the call that it was made for.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) cut: Cut,
}

impl Engine {
    /// Gives a call the summary that it should not go on without: plans anew with it, or leaves the plan as it is.
    pub(super) async fn summarize_before(
        &self,
        call: &Call,
        seen: &mut Seen,
        planned: &mut Planned,
        release: &mut (impl FnMut() + Send),
    ) -> Result<(), HistoryError> {
        let Some(summaries) = self.options().summaries.clone() else { return Ok(()) };
        let Some(job) = self.wanted(&summaries, call, seen, planned) else { return Ok(()) };
        release();
        if is_stored(&job.cut, &job.window) {
            let Some(report) = self.wait_for(&summaries, call, job).await else { return Ok(()) };
            if report.is_summarized() {
                // It was good enough without the summary: what fails now must not fail the call.
                match self.plan_anew(call).await {
                    Ok(anew) => (*seen, *planned) = anew,
                    Err(error @ HistoryError::AlreadyRecorded(_)) => return Err(error),
                    Err(error) => {
                        // What else it may be (an input that does not fit) names ids.
                        let cause = if error.is_load() { chain(&error).to_string() } else { error.kind().to_owned() };
                        let kind = error.kind();
                        tracing::warn!(error.type = kind, error = cause, "a summary is stored, and the call goes on without it");
                    }
                }
            }
            planned.summary = Some(report);
            return Ok(());
        }
        let span = telemetry::summarize(&call.span, job.from());
        let (report, cut) = self.make(&summaries, &job).instrument(span.clone()).await;
        // A part of it would leave out what is behind it.
        let whole = cut.filter(|_| matches!(report.outcome, SummaryOutcome::Stored));
        let outcome = if whole.is_some() { SummaryOutcome::Made } else { report.outcome.clone() };
        let report = SummaryReport { outcome, ..report };
        self.told(&summaries, &report, &span);
        drop(span);
        if let Some(cut) = whole {
            // Before the exchange is stored, the window has nothing to start with.
            let mut empty = seen.clone();
            empty.starts_empty(Compaction::new(job.window.compaction_version(), cut.clone()));
            if let Ok(mut anew) = self.decide(call, &empty).await {
                anew.plan.superseded = planned.plan.superseded;
                anew.plan.fit.cut = Some(cut.clone());
                anew.made = Some(Made { cut });
                (*seen, *planned) = (empty, anew);
            }
        }
        planned.summary = Some(report);
        Ok(())
    }

    /// Stores the summary that was to be stored with an exchange, where that did not come to pass: another compaction had been
    /// stored meanwhile.
    pub(super) async fn keep_summary(&self, conversation: &ConversationId, stored: &Appended, made: Made) {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return;
        }
        // Whatever is stored by now, the summary is put onto it.
        let (incarnation, none) = (stored.revision.incarnation(), CompactionVersion::NONE);
        let Made { mut cut } = made;
        let mut kept = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        if let Err(StoreError::Compaction(CompactionError::NotAnOpening { seq })) = kept {
            // Results of an earlier turn landed where the window was to start. The next summary tells of them.
            cut.window_start = self.opening_after(conversation, seq, stored.seq).await;
            kept = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        }
        if let Ok(true) = kept {
            self.shared.last_seen.saw(conversation, Sighting::of(stored.revision, Some(&cut)));
        }
        if let Err(error) = kept {
            tracing::warn!(error.type = error.kind(), error = %chain(&error), "a summary could not be stored");
        }
    }

    /// Returns the first exchange after `seq` that opens a turn, or `last`, which does.
    async fn opening_after(&self, conversation: &ConversationId, seq: Seq, last: Seq) -> Seq {
        let page = self.bounded(async { self.store().read(conversation, seq, PAGE).await });
        let Ok(page) = page.await else { return last };
        let mut openings = page.exchanges.iter().filter(|recorded| recorded.exchange.opens_turn());
        openings.find(|recorded| recorded.seq > seq).map_or(last, |opening| opening.seq.min(last))
    }

    async fn plan_anew(&self, call: &Call) -> Result<(Seen, Planned), HistoryError> {
        let seen = self.look(call).await?;
        let planned = self.decide(call, &seen).await?;
        Ok((seen, planned))
    }

    /// The summary that a call should wait for: something leaves the window that none covers.
    fn wanted(&self, summaries: &Summaries, call: &Call, seen: &Seen, planned: &Planned) -> Option<Job> {
        let window = seen.window.as_ref()?;
        // Within a turn only rounds leave the window, which no summary covers.
        if planned.plan.continues.is_some() || self.shared.pauses.is_paused(&call.conversation) {
            return None;
        }
        let cut = match summaries.when {
            SummarizeWhen::BeforeEveryCall => everything(window)?,
            // What only the load limit cut off can wait for the end of the turn.
            SummarizeWhen::AfterReply { .. } if planned.plan.fit.evicted.messages == 0 => return None,
            SummarizeWhen::AfterReply { .. } | SummarizeWhen::BeforeCall => planned.plan.fit.cut.clone()?,
        };
        let frame = call.counting.message(&self.options().summary_format.message(""));
        let room = planned.basis.map_or(u64::MAX, |basis| basis.room_for_summary().saturating_sub(frame));
        let leaves = cut.window_start > first_uncovered(&cut, window);
        (leaves && room >= u64::from(summaries.least_room)).then(|| Job {
            conversation: call.conversation.clone(),
            window: window.clone(),
            cut,
            counting: call.counting.clone(),
            max_tokens: summaries.max_tokens.min(u32::try_from(room).unwrap_or(u32::MAX)),
            waited_for: true,
            span: call.span.clone(),
        })
    }

    /// Waits for the summary that is being made of the conversation, or for this one.
    async fn wait_for(&self, summaries: &Summaries, call: &Call, job: Job) -> Option<SummaryReport> {
        let (engine, made_by) = (self.clone(), summaries.clone());
        let work = async move { Some(Arc::new(engine.make_and_store(&made_by, &job).await)) };
        let (running, span) = match self.run(&call.conversation, work) {
            Ok(running) => (running, Span::none()),
            // It is made for another turn, and seen there.
            Err(running) => (running, telemetry::wait(&call.span, WaitFor::Summary)),
        };
        let waited = timer::timeout(Some(summaries.timeout), running);
        let waited = waited.instrument(span).await.ok()??;
        Some(SummaryReport { waited_for: true, ..(*waited).clone() })
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
fn is_stored(cut: &Cut, window: &Window) -> bool {
    window.exchanges.last().is_some_and(|last| cut.window_start <= last.seq)
}

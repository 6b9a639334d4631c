//! One summary: read what it has to cover, have it made, store it.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tower_chat_history_context::plan::{first_uncovered, opens_turn};
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, ConversationId, Cut, Incarnation, Message, Seq, StoreError, Summary, Window,
};
use tracing::{Instrument as _, Span};

use super::{
    super::{count::Counting, timer},
    SummaryWorker,
};
use crate::{
    summary::{Rolled, Rolling, SummaryCost, SummaryError, SummaryOutcome, SummaryReport},
    telemetry,
};

/// The number of exchanges that are read at once.
pub(super) const PAGE: usize = 64;

/// How often a finished summary is put onto a compaction that was stored meanwhile.
const MAX_MERGES: usize = 20;

/// A summary to be made.
pub(in crate::engine) struct Job {
    pub(super) conversation: ConversationId,
    /// The conversation as it was seen.
    pub(super) window: Window,
    /// What the window is to become. Its summary is the one so far.
    pub(super) cut: Cut,
    pub(super) counting: Counting,
    /// How large the summary may be.
    pub(super) max_tokens: u32,
    pub(super) waited_for: bool,
    /// That of the turn that it is made for.
    pub(super) span: Span,
}

impl Job {
    /// The first exchange to read: what was pruned meanwhile is gone.
    pub(super) fn from(&self) -> Seq {
        first_uncovered(&self.cut, &self.window)
    }

    /// The cut for a summary that covers less than it should. Nothing leaves the window uncovered that need not: only a call
    /// that waits is over its limit.
    fn cut_for_part(&self, covers_to: Seq) -> Cut {
        let mut cut = self.cut.clone();
        if !self.waited_for {
            let stored = self.window.compaction.as_ref().map(|compaction| &compaction.cut);
            let least = covers_to.max(stored.map_or(Seq::FIRST, |stored| stored.window_start));
            let mut openings = self.window.exchanges.iter().filter(|recorded| opens_turn(recorded));
            let opening = openings.find(|recorded| recorded.seq >= least).map_or(cut.window_start, |found| found.seq);
            cut.window_start = cut.window_start.min(opening);
            cut.rounds_start = stored.map_or(Seq::FIRST, |stored| stored.rounds_start).max(cut.window_start);
        }
        cut
    }
}

/// Why there is no summary.
enum Missing {
    Unsound(SummaryError),
    Store(StoreError),
}

impl From<SummaryError> for Missing {
    fn from(error: SummaryError) -> Self {
        Self::Unsound(error)
    }
}

impl From<StoreError> for Missing {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl SummaryWorker {
    pub(super) async fn make_and_store(&self, job: &Job) -> SummaryReport {
        let span = telemetry::summarize(&job.span, job.from());
        let report = self.make_and_store_within(job).instrument(span.clone()).await;
        self.report(&report, &span);
        report
    }

    async fn make_and_store_within(&self, job: &Job) -> SummaryReport {
        let (mut report, cut) = self.make(job).await;
        if let Some(cut) = cut {
            let (incarnation, replaces) = (job.window.revision.incarnation(), job.window.compaction_version());
            match self.store_summary(&job.conversation, incarnation, replaces, cut).await {
                Ok(true) => {}
                Ok(false) => report.outcome = SummaryOutcome::Superseded,
                Err(error) => report.outcome = SummaryOutcome::Failed(Arc::new(error)),
            }
        }
        report
    }

    /// The cut with its summary, which is not stored yet.
    pub(super) async fn make(&self, job: &Job) -> (SummaryReport, Option<Cut>) {
        let before = job.cut.summary.as_ref().map(|summary| {
            let tokens = summary.tokens.unwrap_or_else(|| job.counting.text(&summary.text));
            (summary.text.clone(), tokens)
        });
        let mut report = SummaryReport {
            conversation: job.conversation.clone(),
            from: job.from(),
            to: job.cut.window_start,
            waited_for: job.waited_for,
            messages: 0,
            replaced_tokens: 0,
            cost: SummaryCost::default(),
            tokens: None,
            outcome: SummaryOutcome::Stored,
        };
        let (max_tokens, chunk_tokens) = (job.max_tokens, self.summaries.chunk());
        let summarizer = self.store.recorder().watch(&self.summaries.summarizer);
        let mut rolling = Rolling::new(before, &summarizer, &job.counting, max_tokens, chunk_tokens);
        let mut part = None;
        let rolled = self.roll(job, &mut rolling, &mut part);
        let made = timer::timeout(Some(self.summaries.timeout), rolled).await;
        let made = made.unwrap_or_else(|after: Duration| Err(SummaryError::TimedOut(after).into()));
        report.cost = rolling.cost();
        (report.messages, report.replaced_tokens) = (rolling.messages(), rolling.replaces());
        let (rolled, covers_to, mut cut) = match (made, part) {
            (Ok(rolled), _) => (rolled, job.cut.window_start, job.cut.clone()),
            (Err(Missing::Unsound(error)), Some((rolled, covers_to))) => {
                report.outcome = SummaryOutcome::Part(Arc::new(error));
                (rolled, covers_to, job.cut_for_part(covers_to))
            }
            (Err(Missing::Unsound(error)), None) => {
                report.outcome = SummaryOutcome::Rejected(Arc::new(error));
                return (report, None);
            }
            (Err(Missing::Store(error)), _) => {
                report.outcome = SummaryOutcome::Failed(Arc::new(error));
                return (report, None);
            }
        };
        (report.to, report.tokens) = (covers_to, Some(rolled.tokens));
        let mut summary = Summary::new(rolled.text, covers_to);
        (summary.tokens, summary.model) = (Some(rolled.tokens), rolled.model);
        cut.summary = Some(summary);
        (report, Some(cut))
    }

    /// Everything that leaves the window and is not covered yet, the oldest first.
    ///
    /// `part` is what there is to keep if it fails on the way: a summary of the exchanges before a position.
    async fn roll(
        &self,
        job: &Job,
        rolling: &mut Rolling<'_>,
        part: &mut Option<(Rolled, Seq)>,
    ) -> Result<Rolled, Missing> {
        let (mut from, to) = (job.from(), job.cut.window_start);
        while from < to {
            let page = self.store.read(&job.conversation, from, PAGE).await?;
            // After a deletion or a truncation these are other exchanges.
            if page.revision.is_none_or(|now| now.incarnation() != job.window.revision.incarnation()) {
                return Err(StoreError::Gone.into());
            }
            let Some(last) = page.exchanges.last().map(|last| last.seq) else { break };
            let messages = page.exchanges.iter().flat_map(|recorded| &recorded.exchange.messages);
            let messages: Vec<Message> = messages.cloned().collect();
            // Imported messages may not know their counts yet, and there may be many of them.
            job.counting.exchange(&messages, Handle::try_current().ok().as_ref()).await;
            for recorded in page.exchanges.iter().filter(|recorded| recorded.seq < to) {
                let messages = &recorded.exchange.messages;
                if let Some(rolled) = rolling.make_room(messages).await? {
                    *part = Some((rolled, recorded.seq));
                }
                rolling.push(messages).await?;
            }
            from = last.next();
        }
        Ok(rolling.finish().await?)
    }

    /// Stores a cut with a summary. If another compaction has been stored since, the two are merged. Returns `false` if
    /// that one's summary covers as much as this one, or more.
    pub(super) async fn store_summary(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        mut replaces: CompactionVersion,
        made: Cut,
    ) -> Result<bool, StoreError> {
        let mut cut = made.clone();
        let mut attempts = self.store.options().save_attempts;
        for _ in 0..MAX_MERGES {
            match self.store.compact(conversation, incarnation, replaces, cut.clone()).await {
                Ok(CompactOutcome::Stored(_)) => return Ok(true),
                Ok(CompactOutcome::Kept(stored)) => {
                    let stored = stored.unwrap_or_default();
                    let Some(merged) = made.merged_onto(&stored.cut) else { return Ok(false) };
                    (cut, replaces) = (merged, stored.version);
                }
                Err(error) if error.is_retryable() && attempts > 1 => attempts -= 1,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reports a summary in its span, in a log event and to the hook, and lets the next one wait if it failed.
    pub(super) fn report(&self, report: &SummaryReport, span: &Span) {
        let _entered = span.enter();
        self.store.recorder().summarized(span, report);
        let (summaries, backoff, conversation) = (&self.summaries, &self.backoff, &report.conversation);
        match &report.outcome {
            SummaryOutcome::Stored | SummaryOutcome::Made | SummaryOutcome::Superseded => {
                backoff.succeeded(conversation);
            }
            SummaryOutcome::Part(error) => {
                let (kind, cause) = (error.kind(), summaries.cause(error));
                tracing::warn!(error.type = kind, error = %cause, "a summary was not made to its end; the rest is made later");
                // It got on: the backoff does not grow.
                backoff.succeeded(conversation);
                backoff.failed(conversation);
            }
            // There was little to summarize, which is no fault of the summarizer.
            SummaryOutcome::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => {}
            SummaryOutcome::Rejected(error) => {
                let (kind, cause) = (error.kind(), summaries.cause(error));
                tracing::warn!(error.type = kind, error = %cause, "a summary was not made; the window is trimmed without it");
                backoff.failed(conversation);
            }
            SummaryOutcome::Failed(error) => {
                tracing::warn!(
                    error.type = error.kind(),
                    error = %error,
                    "what a summary covers could not be read, or it could not be stored"
                );
                backoff.failed(conversation);
            }
        }
        summaries.report(report);
    }
}

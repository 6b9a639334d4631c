//! Making one summary: read the exchanges that it covers, call the summarizer, store the result.

use std::sync::Arc;

use tokio::time::timeout;
use tower_chat_history_core::{ConversationId, Cut, Dialect, Incarnation, Message, Seq, StoreError, Summary};
use tracing::{Instrument as _, Span};

use super::{
    super::{
        count::Counting,
        store::{Compacted, StoredCut},
        turn::read_each,
    },
    SummaryWorker,
};
use crate::{
    context::{
        plan::{LoadedWindow, can_start_window, first_uncovered},
        tokens::TokenCounter as _,
    },
    error::HistoryError,
    summary::{Rolling, SizedSummary, SummaryCost, SummaryError, SummaryOutcome, SummaryReport},
    telemetry,
};

/// The number of exchanges that are read at once.
pub(super) const PAGE: usize = 64;

/// The largest number of attempts to merge a finished summary into a compaction that was stored since the load.
const MAX_MERGES: usize = 20;

/// A summary to be made.
pub(in crate::engine) struct Job {
    pub(super) conversation: ConversationId,
    /// The conversation as it was loaded.
    pub(super) window: LoadedWindow,
    /// The next cut of the window. It still contains the previous summary.
    pub(super) cut: Cut,
    pub(super) counting: Counting,
    /// The dialect of the conversation.
    pub(super) dialect: &'static dyn Dialect,
    /// The largest size of the summary, in tokens.
    pub(super) max_tokens: u32,
    /// True if a call waits for the summary.
    pub(super) waited_for: bool,
    /// The span of the turn for which the summary is made.
    pub(super) span: Span,
}

impl Job {
    /// Returns the position of the first exchange to summarize: one that is still stored and in no summary.
    pub(super) fn from(&self) -> Seq {
        first_uncovered(&self.cut, &self.window)
    }

    /// Returns the cut for a partial summary, which covers the exchanges before `covers_to`.
    ///
    /// If no call waits for the summary, the exchanges that it does not cover stay in the window: they fit. If a call
    /// waits, these exchanges leave the window, because with them the prompt would exceed its limit.
    fn cut_for_part(&self, covers_to: Seq) -> Cut {
        let mut cut = self.cut.clone();
        if !self.waited_for {
            let stored = self.window.cut();
            let least = covers_to.max(stored.map_or(Seq::FIRST, |stored| stored.window_start));
            let mut openings = self.window.exchanges.iter().filter(|recorded| can_start_window(recorded));
            let opening = openings.find(|recorded| recorded.seq >= least).map_or(cut.window_start, |found| found.seq);
            cut.window_start = cut.window_start.min(opening);
            cut.rounds_start = stored.map_or(Seq::FIRST, |stored| stored.rounds_start).max(cut.window_start);
        }
        cut
    }
}

/// The reason why there is no complete summary.
enum JobError {
    Summary(SummaryError),
    Store(StoreError),
}

impl From<SummaryError> for JobError {
    fn from(error: SummaryError) -> Self {
        Self::Summary(error)
    }
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns the error for a page from this position on that cannot be read in the dialect of the conversation.
fn unreadable(error: HistoryError, job: &Job, from: Seq) -> JobError {
    match error {
        HistoryError::Load(error) => error.into(),
        HistoryError::OtherDialect(error) => SummaryError::OtherDialect(error).into(),
        error => StoreError::Corrupt { conversation: job.conversation.clone(), seq: from, source: error.into() }.into(),
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
            let (incarnation, replaced) = (job.window.revision.incarnation(), StoredCut::of(&job.window));
            match self.store_summary(&job.conversation, incarnation, replaced, cut).await {
                Ok(true) => {}
                Ok(false) => report.outcome = SummaryOutcome::Superseded,
                Err(error) => report.outcome = SummaryOutcome::Failed(Arc::new(error)),
            }
        }
        report
    }

    /// Makes the summary, without storing it. Returns its report, and the cut with the summary if one was made.
    pub(super) async fn make(&self, job: &Job) -> (SummaryReport, Option<Cut>) {
        // The stored number of tokens is not used, because it may be of another counter.
        let before =
            job.cut.summary.as_ref().map(|summary| (summary.text.clone(), job.counting.count_text(&summary.text)));
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
        let summarizer = self.store.recorder().traced(&self.summaries.summarizer);
        let mut rolling = Rolling::new(before, &summarizer, &job.counting, max_tokens, chunk_tokens);
        let mut part = None;
        let limit = self.summaries.options.timeout;
        let made = timeout(limit, self.roll(job, &mut rolling, &mut part)).await;
        let made = made.unwrap_or_else(|_| Err(SummaryError::TimedOut(limit).into()));
        report.cost = rolling.cost();
        (report.messages, report.replaced_tokens) = (rolling.messages(), rolling.replaces());
        let (rolled, covers_to, mut cut) = match (made, part) {
            (Ok(rolled), _) => (rolled, job.cut.window_start, job.cut.clone()),
            (Err(JobError::Summary(error)), Some((rolled, covers_to))) => {
                report.outcome = SummaryOutcome::Part(Arc::new(error));
                (rolled, covers_to, job.cut_for_part(covers_to))
            }
            (Err(JobError::Summary(error)), None) => {
                report.outcome = SummaryOutcome::Rejected(Arc::new(error));
                return (report, None);
            }
            (Err(JobError::Store(error)), _) => {
                report.outcome = SummaryOutcome::Failed(Arc::new(error));
                return (report, None);
            }
        };
        (report.to, report.tokens) = (covers_to, Some(rolled.tokens));
        let mut summary = Summary::new(rolled.text);
        (summary.tokens, summary.model) = (Some(job.counting.count_text(&summary.text)), rolled.model);
        cut.set_summary(summary, covers_to);
        (report, Some(cut))
    }

    /// Summarizes all exchanges that leave the window and are not covered yet, the oldest first.
    ///
    /// Sets `part` to the newest partial summary, and to the position before which it covers all exchanges. The
    /// caller uses them if a later step fails.
    async fn roll(
        &self,
        job: &Job,
        rolling: &mut Rolling<'_>,
        part: &mut Option<(SizedSummary, Seq)>,
    ) -> Result<SizedSummary, JobError> {
        let (mut from, to) = (job.from(), job.cut.window_start);
        while from < to {
            let page = self.store.read(&job.conversation, from, PAGE).await?;
            // After a deletion or a truncation, these positions have other exchanges.
            if page.revision.is_none_or(|now| now.incarnation() != job.window.revision.incarnation()) {
                return Err(StoreError::Gone.into());
            }
            let Some(last) = page.exchanges.last().map(|last| last.seq) else { break };
            let read = read_each(self.store.options(), job.dialect, &job.conversation, &page.exchanges);
            read.map_err(|error| unreadable(error, job, from))?;
            let messages = page.exchanges.iter().flat_map(|recorded| &recorded.exchange.messages);
            let messages: Vec<Message> = messages.cloned().collect();
            // Imported messages may have no counts yet. This call counts them, on a blocking thread if there are many.
            job.counting.exchange(&messages).await;
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

    /// Stores a cut with a summary. If another compaction has been stored since the load, merges the two. Returns
    /// `false` if the stored summary covers at least as many exchanges as this one, or if all attempts to merge
    /// failed.
    pub(super) async fn store_summary(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        mut replaced: Option<StoredCut>,
        made: Cut,
    ) -> Result<bool, StoreError> {
        let mut cut = made.clone();
        let mut attempts = self.store.options().save_attempts;
        for _ in 0..MAX_MERGES {
            match self.store.compact(conversation, incarnation, replaced.as_ref(), cut.clone()).await {
                Ok(Compacted::Stored) => return Ok(true),
                Ok(Compacted::Kept(stored)) => {
                    replaced = stored;
                    let none = Cut::default();
                    let stored = replaced.as_ref().map_or(&none, |replaced| &replaced.cut);
                    let Some(merged) = made.merged_onto(stored) else { return Ok(false) };
                    cut = merged;
                }
                Err(error) if error.is_retryable() && attempts > 1 => attempts -= 1,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reports a summary in its span, in a log event and to the hook. After a failure it starts the backoff.
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
                tracing::warn!(
                    error.type = kind,
                    error = %cause,
                    "only a part of the exchanges was summarized; a later turn summarizes the rest"
                );
                // There was progress, so the pause is the shortest one again.
                backoff.succeeded(conversation);
                backoff.failed(conversation);
            }
            // There was too little to summarize, which is not a failure of the summarizer.
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
                    "the exchanges of a summary could not be read, or the summary could not be stored"
                );
                backoff.failed(conversation);
            }
        }
        summaries.report(report);
    }
}

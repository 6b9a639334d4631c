//! One summary: read what it has to cover, have it made, store it.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tower_chat_history_core::{
    Compact, CompactOutcome, Compaction, ConversationId, Cut, Seq, StoreError, Summary, Window,
};

use crate::{
    Engine,
    engine::{count::Counting, timer},
    summary::{Rolled, Rolling, Summaries, SummaryCost, SummaryError, SummaryOutcome, SummaryReport},
};

/// How many exchanges are read at once.
const PAGE: usize = 256;

/// How often a finished summary is put onto a compaction that was stored meanwhile.
const MERGES: usize = 5;

/// A summary to be made.
pub(super) struct Job<'a> {
    pub(super) conversation: &'a ConversationId,
    /// The conversation as it was seen.
    pub(super) window: &'a Window,
    /// What the window is to become. Its summary is the one so far.
    pub(super) cut: Cut,
    pub(super) counting: &'a Counting,
    pub(super) waited_for: bool,
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

impl Engine {
    pub(super) async fn make_and_store(
        &self,
        summaries: &Summaries,
        job: Job<'_>,
        runtime: Option<&Handle>,
    ) -> SummaryReport {
        let (mut report, cut) = self.make(summaries, &job, runtime).await;
        if let Some(cut) = cut {
            match self.store_summary(&job, cut).await {
                Ok(true) => {}
                Ok(false) => report.outcome = SummaryOutcome::Superseded,
                Err(error) => report.outcome = SummaryOutcome::Failed(Arc::new(error)),
            }
        }
        self.told(summaries, &report);
        report
    }

    /// The cut with its summary, which is not stored yet.
    pub(super) async fn make(
        &self,
        summaries: &Summaries,
        job: &Job<'_>,
        runtime: Option<&Handle>,
    ) -> (SummaryReport, Option<Cut>) {
        let counter = job.counting.counter();
        let before =
            job.cut.summary.as_ref().map(|summary| {
                (summary.text.clone(), summary.tokens.unwrap_or_else(|| counter.count_text(&summary.text)))
            });
        let mut report = SummaryReport {
            conversation: job.conversation.clone(),
            from: job.cut.covers_to(),
            to: job.cut.window_start,
            waited_for: job.waited_for,
            cost: SummaryCost::default(),
            tokens: None,
            outcome: SummaryOutcome::Stored,
        };
        let mut rolling =
            Rolling::new(before, &*summaries.summarizer, counter, summaries.max_tokens, summaries.chunk_tokens);
        let mut part = None;
        let made = timer::timeout(runtime, Some(summaries.timeout), self.roll(job, &mut rolling, &mut part)).await;
        let made = made.unwrap_or_else(|after: Duration| Err(SummaryError::TimedOut(after).into()));
        report.cost = rolling.cost();
        let (rolled, covers_to) = match (made, part) {
            (Ok(rolled), _) => (rolled, job.cut.window_start),
            (Err(Missing::Unsound(error)), Some((rolled, covers_to))) => {
                report.outcome = SummaryOutcome::Part(Arc::new(error));
                (rolled, covers_to)
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
        let mut cut = job.cut.clone();
        cut.summary = Some(summary);
        (report, Some(cut))
    }

    /// Everything that leaves the window and is not covered yet, the oldest first.
    ///
    /// `part` is what there is to keep if it fails on the way: a summary of the exchanges before a position.
    async fn roll(
        &self,
        job: &Job<'_>,
        rolling: &mut Rolling<'_>,
        part: &mut Option<(Rolled, Seq)>,
    ) -> Result<Rolled, Missing> {
        let (mut from, to) = (job.cut.covers_to(), job.cut.window_start);
        while from < to {
            let page = self.store().read(job.conversation, from, PAGE).await?;
            let Some(last) = page.exchanges.last().map(|last| last.seq) else { break };
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

    /// Stores a summary, onto whatever compaction there is by now if that still has the summary it was made from: it is paid
    /// for. `false` if another summary came first.
    async fn store_summary(&self, job: &Job<'_>, made: Cut) -> Result<bool, StoreError> {
        let base = job.cut.covers_to();
        let (mut cut, mut replaces) = (made.clone(), job.window.compaction_version());
        for _ in 0..MERGES {
            let profile = self.options().profile.clone();
            let compact = Compact { profile, replaces, cut };
            match self.store().compact(job.conversation, job.window.revision.incarnation(), compact).await? {
                CompactOutcome::Stored(_) => return Ok(true),
                CompactOutcome::Kept(stored) => {
                    let Compaction { version, cut: stored, .. } = stored.unwrap_or_default();
                    let Some(merged) = made.merged_onto(base, &stored) else { return Ok(false) };
                    (cut, replaces) = (merged, version);
                }
            }
        }
        Ok(false)
    }

    /// Tells of a summary, and lets the next one wait if it was none.
    pub(super) fn told(&self, summaries: &Summaries, report: &SummaryReport) {
        match &report.outcome {
            SummaryOutcome::Stored | SummaryOutcome::Superseded => self.shared.pauses.succeeded(&report.conversation),
            SummaryOutcome::Rejected(error) | SummaryOutcome::Part(error) => {
                tracing::warn!(error.type = error.kind(), "a summary was not made, or not whole; the window is trimmed without it");
                self.shared.pauses.failed(&report.conversation);
            }
            SummaryOutcome::Failed(error) => {
                tracing::warn!(error.type = error.kind(), "a summary could not be stored");
                self.shared.pauses.failed(&report.conversation);
            }
        }
        summaries.tell(report);
    }
}

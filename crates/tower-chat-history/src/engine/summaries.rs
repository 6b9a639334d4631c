//! Summarizing exchanges that leave the window: after the reply, or before a call.
//!
//! # Decisions
//!
//! - **Summaries are made after the reply**, so calls don't wait for them. A summary is stored with its cut, so the
//!   beginning of the prompt changes once. A call that exceeds the limit before the summary is ready waits for it, or
//!   makes one.
//! - **A summary says what it covers.** If one fails, the window is trimmed without it, and the next one reads what has
//!   left the window from the log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tower_chat_history_core::{
    Appended, CompactOutcome, ConversationId, Cut, Dialect, Incarnation, MediaCompat, Message, Origin, Seq, StoreError,
    Summary,
};
use tracing::{Instrument as _, Span};

use super::{
    count::{Counting, fit_budget},
    running::RunningWork,
    store::{BoundedStore, LoadResult, Replacement, StoredCut},
    translate::{Reader, in_dialect, read_each},
};
use crate::{
    context::{
        plan::{self, CallBudget, GrownWindow, LoadedWindow, can_start_window, first_uncovered},
        tokens::TokenCounter as _,
    },
    error::HistoryError,
    options::HistoryOptions,
    summary::{
        Rolling, SizedSummary, Summaries, SummarizeWhen, SummaryCost, SummaryError, SummaryOutcome, SummaryReport,
    },
    telemetry::{self, WaitFor},
};

/// The number of exchanges that are read at once.
const PAGE: usize = 64;

/// The largest number of attempts to merge a finished summary into a compaction that was stored since the load.
const MAX_MERGES: usize = 20;

/// Makes an engine's summaries, one at a time per conversation. A clone shares the running summaries.
#[derive(Clone)]
pub(super) struct SummaryWorker {
    store: BoundedStore,
    summaries: Summaries,
    running: Arc<RunningWork<Arc<SummaryReport>>>,
    backoff: Arc<SummaryBackoff>,
}

impl SummaryWorker {
    pub(super) fn new(store: BoundedStore, summaries: Summaries, tasks: TaskTracker) -> Self {
        Self { store, summaries, running: Arc::new(RunningWork::new(tasks)), backoff: Arc::default() }
    }

    /// Returns the worker for this store, which may have another profile.
    pub(super) fn with_store(&self, store: &BoundedStore) -> Self {
        Self { store: store.clone(), ..self.clone() }
    }

    pub(super) const fn configuration(&self) -> &Summaries {
        &self.summaries
    }

    /// Returns `true` if the conversation's last summary failed a short time ago.
    pub(super) fn is_paused(&self, conversation: &ConversationId) -> bool {
        self.backoff.is_paused(conversation)
    }

    /// Returns the number of running summaries.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Waits for the conversation's running summary, or starts this one and waits for it.
    pub(super) async fn wait_for(&self, job: Job) -> Option<SummaryReport> {
        let conversation = job.conversation.clone();
        let turn = job.span.clone();
        let worker = self.clone();
        let work = async move { Some(Arc::new(worker.make_and_store(&job).await)) };
        let (running, span) = match self.running.run(&conversation, work) {
            Ok(running) => (running, Span::none()),
            // The running summary belongs to another turn and has its span there, so this turn gets a span of the wait.
            Err(running) => (running, telemetry::wait(&turn, WaitFor::Summary)),
        };

        let waited = timeout(self.summaries.options.timeout, running.output());
        let waited = waited.instrument(span).await.ok()??;
        Some(SummaryReport { waited_for: true, ..(*waited).clone() })
    }

    /// Makes a summary that cannot be stored yet. Returns its report, and the cut with the summary if one was made.
    pub(super) async fn make_pending(&self, job: &Job) -> (SummaryReport, Option<Cut>) {
        let span = telemetry::summarize(&job.span, job.from());
        let (mut report, cut) = self.make(job).instrument(span.clone()).await;
        // A partial summary is not used: the exchanges that it does not cover would be missing, because the window is
        // empty.
        let whole = cut.filter(|_| matches!(report.outcome, SummaryOutcome::Stored));
        if whole.is_some() {
            report.outcome = SummaryOutcome::Made;
        }
        self.report(&report, &span);
        (report, whole)
    }

    /// Starts a summary of the conversation's beginning if one is due after this turn.
    pub(super) fn after_turn(&self, conversation: &ConversationId, turn: TurnEnd) {
        let SummarizeWhen::AfterReply { percent } = self.summaries.options.when else { return };
        let high = self.store.options().context.watermarks.high();
        let is_due = turn.has_gap || turn.window.is_near(high, percent.clamp(1, 100));
        if !is_due || self.is_paused(conversation) {
            return;
        }

        let worker = self.clone();
        let id = conversation.clone();
        let work = async move { worker.summarize_window(&id, &turn).await };
        // If a summary is already running, nothing is lost: a later turn starts the next one.
        let _ = self.running.run(conversation, work);
    }

    /// Loads the current window, and makes and stores the summary for its next cut. Returns `None` if there is
    /// nothing to summarize.
    async fn summarize_window(&self, conversation: &ConversationId, turn: &TurnEnd) -> Option<Arc<SummaryReport>> {
        let window = match self.load_window(conversation, turn).await {
            Ok(window) => window?,
            Err(error) => {
                tracing::warn!(
                    error.type = error.kind(),
                    error = %error,
                    "the exchanges to summarize could not be loaded; a later turn retries"
                );
                return None;
            }
        };

        let cut = next_cut(self.store.options(), &window, turn);
        let job = Job {
            conversation: conversation.clone(),
            window,
            cut,
            counting: turn.counting.clone(),
            dialect: turn.dialect,
            max_tokens: self.summaries.options.max_tokens,
            waited_for: false,
            span: turn.span.clone(),
        };
        if job.cut.window_start <= job.from() || !job.is_storable() {
            return None;
        }
        Some(Arc::new(self.make_and_store(&job).await))
    }

    /// Loads the window in the dialect of the conversation. Returns `None` if the conversation is gone.
    async fn load_window(
        &self,
        conversation: &ConversationId,
        turn: &TurnEnd,
    ) -> Result<Option<LoadedWindow>, HistoryError> {
        let loaded = self.store.load(conversation, turn.dialect, None, &turn.span).await?;
        let LoadResult::Window(mut window) = loaded else { return Ok(None) };
        read_each(self.store.options(), turn.dialect, conversation, &window.exchanges)?;
        in_dialect(Reader { dialect: turn.dialect, origin: &turn.origin }, &mut window.exchanges).await?;
        Ok(Some(window))
    }

    /// Stores a pending summary on its own, if its exchange was stored without it. Returns the cut that was stored, if
    /// one was.
    pub(super) async fn store_pending(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        pending: &Cut,
    ) -> Option<Cut> {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return None;
        }
        match self.store_pending_cut(conversation, stored, pending.clone()).await {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(error.type = error.kind(), error = %error, "a summary could not be stored");
                None
            }
        }
    }

    async fn store_pending_cut(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        mut cut: Cut,
    ) -> Result<Option<Cut>, StoreError> {
        // At the position where the window should start, tool results of an earlier turn may have been stored. The
        // window then starts after them, and the next summary covers them.
        let Some(opening) = self.opening_from(conversation, cut.window_start).await? else { return Ok(None) };
        cut.window_start = opening;

        // The compaction to replace is not known. With `None`, the store returns the current compaction if there is
        // one, and the summary is merged into it.
        let is_stored = self.store_summary(conversation, stored.revision.incarnation(), None, cut.clone()).await?;
        Ok(is_stored.then_some(cut))
    }

    /// Returns the position of the first exchange from `seq` on that opens a turn.
    async fn opening_from(&self, conversation: &ConversationId, seq: Seq) -> Result<Option<Seq>, StoreError> {
        let page = self.store.read_bounded(conversation, seq, PAGE).await?;
        let opening = page.exchanges.iter().find(|recorded| recorded.exchange.opens_turn());
        Ok(opening.map(|opening| opening.seq))
    }

    async fn make_and_store(&self, job: &Job) -> SummaryReport {
        let span = telemetry::summarize(&job.span, job.from());
        let report = self.make_and_store_within(job).instrument(span.clone()).await;
        self.report(&report, &span);
        report
    }

    async fn make_and_store_within(&self, job: &Job) -> SummaryReport {
        let (mut report, cut) = self.make(job).await;
        if let Some(cut) = cut {
            let incarnation = job.window.revision.incarnation();
            let replaced = StoredCut::of(&job.window);
            match self.store_summary(&job.conversation, incarnation, replaced, cut).await {
                Ok(true) => {}
                Ok(false) => report.outcome = SummaryOutcome::Superseded,
                Err(error) => report.outcome = SummaryOutcome::Failed(Arc::new(error)),
            }
        }
        report
    }

    /// Makes the summary, without storing it. Returns its report, and the cut with the summary if one was made.
    async fn make(&self, job: &Job) -> (SummaryReport, Option<Cut>) {
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

        let summarizer = self.store.recorder().traced(&self.summaries.summarizer);
        let chunk_tokens = self.summaries.chunk();
        let mut rolling = Rolling::new(before, &summarizer, &job.counting, job.max_tokens, chunk_tokens);
        let mut part = None;
        let limit = self.summaries.options.timeout;
        let made = timeout(limit, self.roll(job, &mut rolling, &mut part)).await;
        let made = made.unwrap_or_else(|_| Err(SummaryError::TimedOut(limit).into()));
        report.cost = rolling.cost();
        report.messages = rolling.messages();
        report.replaced_tokens = rolling.replaces();

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
        report.to = covers_to;
        report.tokens = Some(rolled.tokens);

        let mut summary = Summary::new(rolled.text);
        summary.tokens = Some(job.counting.count_text(&summary.text));
        summary.model = rolled.model;
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
        let to = job.cut.window_start;
        let mut from = job.from();
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
    /// failed. After transient errors, it is attempted as often as a save, with the same pauses.
    async fn store_summary(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        mut replaced: Option<StoredCut>,
        made: Cut,
    ) -> Result<bool, StoreError> {
        let mut cut = made.clone();
        let mut pauses = self.store.pauses();
        for _ in 0..MAX_MERGES {
            match self.store.compact(conversation, incarnation, replaced.as_ref(), cut.clone()).await {
                Ok(Replacement::Stored) => return Ok(true),
                Ok(Replacement::Kept(stored)) => {
                    replaced = stored;
                    let none = Cut::default();
                    let stored = replaced.as_ref().map_or(&none, |replaced| &replaced.cut);
                    let Some(merged) = made.merged_onto(stored) else { return Ok(false) };
                    cut = merged;
                }
                Err(error) => {
                    let pause = pauses.next().filter(|_| error.is_retryable());
                    let Some(pause) = pause else { return Err(error) };
                    sleep(pause).await;
                }
            }
        }
        Ok(false)
    }

    /// Reports a summary in its span, in a log event and to the hook. After a failure it starts the backoff.
    fn report(&self, report: &SummaryReport, span: &Span) {
        let _entered = span.enter();
        self.store.recorder().summarized(span, report);
        let Self { summaries, backoff, .. } = self;
        let conversation = &report.conversation;
        match &report.outcome {
            SummaryOutcome::Stored | SummaryOutcome::Made | SummaryOutcome::Superseded => {
                backoff.succeeded(conversation);
            }
            SummaryOutcome::Part(error) => {
                tracing::warn!(
                    error.type = error.kind(),
                    error = %summaries.cause(error),
                    "only a part of the exchanges was summarized; a later turn summarizes the rest"
                );
                // There was progress, so the pause is the shortest one again.
                backoff.succeeded(conversation);
                backoff.failed(conversation);
            }
            // There was too little to summarize, which is not a failure of the summarizer.
            SummaryOutcome::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => {}
            SummaryOutcome::Rejected(error) => {
                tracing::warn!(
                    error.type = error.kind(),
                    error = %summaries.cause(error),
                    "a summary was not made; the window is trimmed without it"
                );
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

/// The data of a finished turn that decide if a summary is made, and for which cut.
pub(super) struct TurnEnd {
    pub(super) budget: CallBudget,
    pub(super) counting: Counting,
    /// The dialect of the conversation.
    pub(super) dialect: &'static dyn Dialect,
    /// The provider of the next call, as far as it is known.
    pub(super) origin: Origin,
    /// The media that the provider accepts.
    pub(super) media: MediaCompat,
    pub(super) window: GrownWindow,
    /// True if some exchanges before the window are in no summary.
    pub(super) has_gap: bool,
    /// The turn's span.
    pub(super) span: Span,
}

/// A summary to be made.
pub(super) struct Job {
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

    /// Returns `true` if the summary can be stored at once: a window must start at an exchange that is stored.
    pub(super) fn is_storable(&self) -> bool {
        self.window.exchanges.last().is_some_and(|last| self.cut.window_start <= last.seq)
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
            let mut exchanges = self.window.exchanges.iter();
            let opening = exchanges.find(|recorded| recorded.seq >= least && can_start_window(recorded));
            cut.window_start = opening.map_or(cut.window_start, |opening| cut.window_start.min(opening.seq));
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

/// Returns the cut that a compaction would store if it were due now. If nothing would leave the window, this is the
/// stored cut: its summary may not yet cover all exchanges before its window.
fn next_cut(options: &HistoryOptions, window: &LoadedWindow, turn: &TurnEnd) -> Cut {
    let mut next = turn.budget;
    next.sizes.window = 0;
    next.sizes.input = 0;
    let cost = |message: &Message| turn.counting.message(message);
    let budget = fit_budget(next, options, true, &cost);
    let context = &options.context;
    let next = plan::next_cut(window, context.load_limit, &budget, &turn.origin, turn.media, context.old_reasoning);
    next.or_else(|| window.cut().cloned()).unwrap_or_default()
}

/// The pause after the first failure. Each further pause is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// The largest number of conversations with a pause. If one more fails, all pauses end early.
const MAX_PAUSED: usize = 10_000;

/// The conversations whose last summary failed. Without the pauses, every turn would call a summarizer that is down.
#[derive(Debug, Default)]
struct SummaryBackoff(Mutex<HashMap<ConversationId, Pause>>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    failures: u32,
    until: Instant,
}

impl SummaryBackoff {
    fn is_paused(&self, conversation: &ConversationId) -> bool {
        self.lock().get(conversation).is_some_and(|pause| Instant::now() < pause.until)
    }

    fn failed(&self, conversation: &ConversationId) {
        let mut pauses = self.lock();
        if pauses.len() >= MAX_PAUSED && !pauses.contains_key(conversation) {
            pauses.clear();
        }
        let failures = pauses.get(conversation).map_or(0, |pause| pause.failures);
        let pause = FIRST_BACKOFF.saturating_mul(1 << failures.min(16)).min(LONGEST_BACKOFF);
        let pause = Pause { failures: failures.saturating_add(1), until: Instant::now() + pause };
        pauses.insert(conversation.clone(), pause);
    }

    fn succeeded(&self, conversation: &ConversationId) {
        self.lock().remove(conversation);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_pause_and_a_success_ends_it() {
        let backoff = SummaryBackoff::default();
        let id = ConversationId::new(["a"]).unwrap();
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert!(!backoff.is_paused(&id));
            backoff.failed(&id);
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(backoff.is_paused(&id), "{seconds}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        backoff.failed(&id);
        backoff.succeeded(&id);
        assert!(!backoff.is_paused(&id));
        assert!(!backoff.is_paused(&ConversationId::new(["b"]).unwrap()));
    }
}

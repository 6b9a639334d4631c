//! The spans of a turn's steps: the load, the planning of the prompt, the search for messages to show again, and the
//! save.

use std::time::{Duration, Instant};

use crate::context::{budget::PromptTokens, plan::LoadedWindow};
use tower_chat_history_core::{Appended, CompactOutcome, Recorded, Seq, StoreError};
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, fail, int},
};
use crate::{
    error::{HistoryError, SaveError},
    report::{RecallReport, TurnTokens},
};

/// A load in progress.
pub(crate) struct LoadStep<'a> {
    recorder: &'a Recorder,
    span: Span,
    begun: Instant,
}

impl Recorder {
    /// Begins the span of a load.
    pub(crate) fn load(&self, turn: &Span) -> LoadStep<'_> {
        let span = if turn.is_disabled() { Span::none() } else { self.load_span(turn) };
        LoadStep { recorder: self, span, begun: Instant::now() }
    }

    fn load_span(&self, turn: &Span) -> Span {
        info_span!(
            parent: turn,
            spans::LOAD,
            otel.kind = if self.is_in_process() { "internal" } else { "client" },
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::OPERATION_NAME } = "search_memory",
            { attributes::STORE } = self.store,
            { attributes::DB_SYSTEM_NAME } = self.database(),
            { attributes::MEMORY_RECORD_COUNT } = Empty,
            { attributes::MESSAGES_LOADED } = Empty,
            { attributes::LOAD_TRUNCATED } = Empty,
            { attributes::VERSION } = Empty,
        )
    }
}

impl LoadStep<'_> {
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Records the exchanges that were loaded, and the window if it was loaded, or the kind of the error.
    pub(crate) fn ended(self, loaded: Result<(&[Recorded], Option<&LoadedWindow>), &'static str>) {
        let Self { recorder, span: load, begun } = &self;
        recorder.metrics.loaded(recorder.store, loaded.err(), begun.elapsed());
        if load.is_disabled() {
            return;
        }

        let (recorded, window) = match loaded {
            Err(kind) => return fail(load, kind),
            Ok(loaded) => loaded,
        };

        if let Some(window) = window {
            record_all!(
                load,
                { attributes::LOAD_TRUNCATED } = window.truncated,
                { attributes::VERSION } = int(window.revision.version()),
            );
        }

        let messages: usize = recorded.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        record_all!(
            load,
            { attributes::MEMORY_RECORD_COUNT } = int(recorded.len()),
            { attributes::MESSAGES_LOADED } = int(messages),
        );
    }
}

/// The planning of a prompt in progress.
pub(crate) struct TrimStep(Span);

/// The sizes of a planned prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptSizes<'a> {
    /// The token counts, if there is a budget.
    pub(crate) tokens: Option<&'a TurnTokens>,
    /// The number of messages in summary, window and input.
    pub(crate) messages: usize,
    pub(crate) evicted_messages: usize,
}

impl TrimStep {
    /// Begins the span of a plan.
    pub(crate) fn of(turn: &Span, counter: Option<&str>) -> Self {
        Self(if turn.is_disabled() { Span::none() } else { trim_span(turn, counter) })
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.0
    }

    /// Records the plan, or the error.
    pub(crate) fn ended(self, planned: Result<PromptSizes<'_>, &HistoryError>) {
        let Self(trim) = &self;
        if trim.is_disabled() {
            return;
        }
        match planned {
            Ok(planned) => record_plan(trim, &planned),
            Err(error) => record_refusal(trim, error),
        }
    }
}

/// Records the time of counting this many texts that were not counted before.
pub(crate) fn counted(trim: &Span, texts: usize, time: Duration) {
    record_all!(
        trim,
        { attributes::COUNT_TEXTS } = int(texts),
        { attributes::COUNT_DURATION_MS } = time.as_secs_f64() * 1e3,
    );
}

fn record_plan(trim: &Span, planned: &PromptSizes<'_>) {
    record_all!(
        trim,
        { attributes::MESSAGES_BEFORE } = int(planned.messages.saturating_add(planned.evicted_messages)),
        { attributes::MESSAGES_AFTER } = int(planned.messages),
        { attributes::MESSAGES_EVICTED } = int(planned.evicted_messages),
        { attributes::TRIM_NEEDED } = planned.tokens.is_some_and(|tokens| tokens.trimming.is_needed()),
    );
    if let Some(tokens) = planned.tokens {
        record_tokens(trim, tokens);
    }
}

fn record_refusal(trim: &Span, error: &HistoryError) {
    if let HistoryError::DoesNotFit(refused) = error {
        let budget = refused.context_window.saturating_sub(refused.reply_reserve);
        record_all!(
            trim,
            { attributes::TRIM_NEEDED } = true,
            { attributes::TOKENS_BUDGET } = int(budget),
            // A call is refused only if its uncorrected counts do not fit.
            { attributes::CALIBRATION } = 1.0,
        );
        record_sizes(trim, &refused.parts);
    }
    fail(trim, error.kind());
}

fn trim_span(turn: &Span, counter: Option<&str>) -> Span {
    info_span!(
        parent: turn,
        spans::TRIM,
        otel.kind = "internal",
        otel.status_code = Empty,
        { attributes::ERROR_TYPE } = Empty,
        { attributes::TOKENIZER } = counter,
        { attributes::COUNT_TEXTS } = Empty,
        { attributes::COUNT_DURATION_MS } = Empty,
        { attributes::TRIM_NEEDED } = Empty,
        { attributes::TRIM_REASON } = Empty,
        { attributes::TRIM_STRATEGY } = Empty,
        { attributes::TRIM_FOR_THIS_CALL } = Empty,
        { attributes::TRIM_COMPACTED } = Empty,
        { attributes::TOKENS_BUDGET } = Empty,
        { attributes::TOKENS_BEFORE } = Empty,
        { attributes::TOKENS_AFTER } = Empty,
        { attributes::TOKENS_EVICTED } = Empty,
        { attributes::TOKENS_HEAD } = Empty,
        { attributes::TOKENS_TOOLS } = Empty,
        { attributes::TOKENS_SUMMARY } = Empty,
        { attributes::TOKENS_WINDOW } = Empty,
        { attributes::TOKENS_INPUT } = Empty,
        { attributes::MESSAGES_BEFORE } = Empty,
        { attributes::MESSAGES_AFTER } = Empty,
        { attributes::MESSAGES_EVICTED } = Empty,
        { attributes::REPLY_LIMIT } = Empty,
        { attributes::CALIBRATION } = Empty,
    )
}

fn record_tokens(trim: &Span, tokens: &TurnTokens) {
    let trimming = tokens.trimming;
    record_all!(
        trim,
        { attributes::TRIM_REASON } = trimming.reason.map(|reason| reason.kind()),
        { attributes::TRIM_STRATEGY } = trimming.is_needed().then(|| trimming.strategy()),
        { attributes::TRIM_FOR_THIS_CALL } = tokens.for_this_call,
        { attributes::TRIM_COMPACTED } = tokens.compacted,
        // Not set if there is no limit.
        { attributes::TOKENS_BUDGET } = i64::try_from(tokens.limit).ok().filter(|limit| *limit < i64::MAX),
        { attributes::TOKENS_BEFORE } = int(tokens.before()),
        { attributes::TOKENS_EVICTED } = int(tokens.evicted_tokens),
        { attributes::REPLY_LIMIT } = tokens.reply_limit.map(i64::from),
        { attributes::CALIBRATION } = tokens.calibration,
    );
    record_sizes(trim, &tokens.prompt);
}

fn record_sizes(trim: &Span, parts: &PromptTokens) {
    record_all!(
        trim,
        { attributes::TOKENS_AFTER } = int(parts.total()),
        { attributes::TOKENS_HEAD } = int(parts.head),
        { attributes::TOKENS_TOOLS } = int(parts.tools.saturating_add(parts.response_format)),
        { attributes::TOKENS_SUMMARY } = int(parts.summary),
        { attributes::TOKENS_WINDOW } = int(parts.window),
        { attributes::TOKENS_INPUT } = int(parts.input),
    );
}

/// A search in progress.
pub(crate) struct RecallStep<'a> {
    recorder: &'a Recorder,
    span: Span,
}

impl<'a> RecallStep<'a> {
    /// Begins the span of a search.
    pub(crate) fn of(recorder: &'a Recorder, turn: &Span) -> Self {
        let span = if turn.is_disabled() { Span::none() } else { recall_span(turn) };
        Self { recorder, span }
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Records the report of the search.
    pub(crate) fn ended(self, report: &RecallReport) {
        let Self { recorder, span: recall } = &self;
        recorder.metrics.recalled(report);
        if recall.is_disabled() {
            return;
        }

        record_all!(
            recall,
            { attributes::RECALL_OUTCOME } = report.outcome.kind(),
            { attributes::RECALL_EXCHANGES } = int(report.exchanges),
            { attributes::RECALL_MESSAGES } = int(report.messages),
            { attributes::TOKENS_RECALLED } = int(report.tokens),
            { attributes::RECALL_ALLOWANCE } = int(report.allowance),
            { attributes::RECALL_CONVERSATIONS } = i64::from(report.conversations),
            { attributes::RECALL_FAILED_CONVERSATIONS } =
                Some(i64::from(report.failed_conversations)).filter(|n| *n > 0),
            { attributes::RECALL_INCOMPLETE } = report.is_incomplete.then_some(true),
            { attributes::RECALL_SCORE } = report.best_score,
        );

        if let Some(kind) = report.outcome.error_kind() {
            fail(recall, kind);
        }
    }
}

/// Begins the span of a preparation, which may go on after the turn has ended.
pub(crate) fn prepare(turn: &Span) -> Span {
    if turn.is_disabled() {
        return Span::none();
    }
    info_span!(
        parent: turn,
        spans::PREPARE,
        otel.kind = "internal",
        otel.status_code = Empty,
        { attributes::ERROR_TYPE } = Empty,
    )
}

fn recall_span(turn: &Span) -> Span {
    info_span!(
        parent: turn,
        spans::RECALL,
        otel.kind = "internal",
        otel.status_code = Empty,
        { attributes::ERROR_TYPE } = Empty,
        { attributes::RECALL_OUTCOME } = Empty,
        { attributes::RECALL_EXCHANGES } = Empty,
        { attributes::RECALL_MESSAGES } = Empty,
        { attributes::TOKENS_RECALLED } = Empty,
        { attributes::RECALL_ALLOWANCE } = Empty,
        { attributes::RECALL_CONVERSATIONS } = Empty,
        { attributes::RECALL_FAILED_CONVERSATIONS } = Empty,
        { attributes::RECALL_INCOMPLETE } = Empty,
        { attributes::RECALL_SCORE } = Empty,
    )
}

/// A save in progress.
pub(crate) struct SaveStep<'a> {
    recorder: &'a Recorder,
    span: Span,
    begun: Instant,
}

impl Recorder {
    /// Begins the span of the save of an exchange with this number of messages.
    pub(crate) fn save(&self, turn: &Span, messages: usize) -> SaveStep<'_> {
        let span = if turn.is_disabled() { Span::none() } else { self.save_span(turn, messages) };
        SaveStep { recorder: self, span, begun: Instant::now() }
    }

    fn save_span(&self, turn: &Span, messages: usize) -> Span {
        info_span!(
            parent: turn,
            spans::SAVE,
            otel.kind = if self.is_in_process() { "internal" } else { "client" },
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::OPERATION_NAME } = "create_memory",
            { attributes::STORE } = self.store,
            { attributes::DB_SYSTEM_NAME } = self.database(),
            { attributes::MEMORY_RECORD_COUNT } = 1_i64,
            { attributes::MESSAGES_SAVED } = int(messages),
            { attributes::VERSION } = Empty,
            { attributes::SAVE_ATTEMPTS } = Empty,
            { attributes::SAVE_CONFLICT } = Empty,
            { attributes::SAVE_COMPACTION } = Empty,
        )
    }
}

impl SaveStep<'_> {
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Records the result of a save after this number of attempts. `is_duplicate` is true if another call has stored an
    /// exchange with its id. `next` is the position of the log's next exchange at the time of the load.
    pub(crate) fn ended(
        self,
        appended: Result<&Appended, &SaveError>,
        is_duplicate: bool,
        next: Option<Seq>,
        attempts: u32,
    ) {
        let Self { recorder, span: save, begun } = &self;
        let failed = appended.err().map(SaveError::kind);
        let conflict = conflict(appended, is_duplicate, next);
        recorder.metrics.saved(recorder.store, failed, conflict, begun.elapsed());
        if save.is_disabled() {
            return;
        }

        record_all!(
            save,
            { attributes::SAVE_ATTEMPTS } = i64::from(attempts),
            { attributes::SAVE_CONFLICT } = conflict,
        );
        match appended {
            Ok(appended) => {
                let compaction = appended.compaction.as_ref().map(|outcome| match outcome {
                    CompactOutcome::Stored(_) => "stored",
                    CompactOutcome::Kept(_) => "outdated",
                });
                record_all!(
                    save,
                    { attributes::VERSION } = int(appended.revision.version()),
                    { attributes::SAVE_COMPACTION } = compaction,
                );
            }
            Err(error) => fail(save, error.kind()),
        }
    }
}

/// Returns the outcome of a save if another exchange was stored between load and save.
fn conflict(appended: Result<&Appended, &SaveError>, is_duplicate: bool, next: Option<Seq>) -> Option<&'static str> {
    match appended {
        // A retry that finds the exchange of its own earlier attempt is not a conflict.
        Ok(Appended { duplicate: true, .. }) => is_duplicate.then_some("duplicate"),
        Ok(appended) => next.filter(|next| *next < appended.seq).map(|_| "rebased"),
        Err(SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone)) => Some("rejected"),
        Err(_) => None,
    }
}

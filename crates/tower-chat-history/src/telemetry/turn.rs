//! The span of a turn, and the spans of its waits.
//!
//! # Decisions
//!
//! - **Each child span names its parent.** A save may run in another call's task, where the current span is another
//!   one.
//! - **The turn's span is entered once more when the turn ends**, because `tracing-opentelemetry` takes the last exit
//!   as the end, and a background summary keeps the span open.

use tower_chat_history_core::ConversationId;
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, fail, int},
};
use crate::{
    error::HistoryError,
    report::{TurnOutcome, TurnReport},
};

/// The reason for a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitFor {
    /// Earlier calls in the conversation's queue.
    Queue,
    /// Pending saves of the conversation.
    Saves,
    /// A running summary.
    Summary,
}

/// Begins the span of a wait.
pub(crate) fn wait(turn: &Span, reason: WaitFor) -> Span {
    if turn.is_disabled() {
        return Span::none();
    }
    let reason = match reason {
        WaitFor::Queue => "queue",
        WaitFor::Saves => "save",
        WaitFor::Summary => "summary",
    };
    info_span!(
        parent: turn,
        spans::WAIT,
        otel.kind = "internal",
        otel.status_code = Empty,
        { attributes::ERROR_TYPE } = Empty,
        { attributes::WAIT_FOR } = reason,
    )
}

impl Recorder {
    /// Begins the span of a turn, as a child of the current span.
    pub(crate) fn turn(&self, id: &ConversationId) -> Span {
        if !self.telemetry.spans {
            return Span::none();
        }
        info_span!(
            spans::CHAT_HISTORY,
            otel.kind = "internal",
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::CONVERSATION_ID } = self.name_of(id),
            { attributes::CONVERSATION_COMPACTED } = Empty,
            { attributes::PROFILE } = self.profile.as_str(),
            { attributes::OUTCOME } = Empty,
            { attributes::HISTORY } = Empty,
            { attributes::STREAMED } = Empty,
            { attributes::FALLBACK } = Empty,
            { attributes::WINDOW } = Empty,
            { attributes::VERSION } = Empty,
            { attributes::SUPERSEDED_CALLS } = Empty,
            { attributes::DOWNGRADED } = Empty,
            { attributes::REASONING_LEFT_OUT } = Empty,
            { attributes::TRANSLATED } = Empty,
            { attributes::HEAD_CHANGED } = Empty,
            { attributes::BEGINS_WITH_COMPACTION } = Empty,
            { attributes::CACHED_PREFIX_RATIO } = Empty,
            { attributes::ESTIMATE_ERROR } = Empty,
        )
    }

    /// Returns the current span, as the parent for the steps of a call that is not a turn. If the options disable
    /// spans, returns a disabled span.
    pub(crate) fn current_span(&self) -> Span {
        if self.telemetry.spans { Span::current() } else { Span::none() }
    }

    /// Records a turn that did not begin, because of this error, or because its caller has left (`None`).
    pub(crate) fn not_begun(&self, turn: &Span, error: Option<&HistoryError>) {
        let (outcome, failed) = match error {
            None => ("abandoned", None),
            // The caller gets the recorded reply, so this is not a failure.
            Some(error @ HistoryError::AlreadyRecorded(_)) => (error.kind(), None),
            Some(error) => ("refused", Some(error.kind())),
        };
        self.metrics.turn(outcome, failed, None);
        let _entered = turn.enter();
        record_all!(turn, { attributes::OUTCOME } = outcome);
        if let Some(kind) = failed {
            fail(turn, kind);
        }
    }

    /// Records the end of a turn.
    pub(crate) fn ended(&self, turn: &Span, report: &TurnReport) {
        self.metrics.ended(report);
        if turn.is_disabled() {
            return;
        }

        // A span ends at its last exit. Entering it here makes this the turn's end, even if a summary continues
        // within it.
        let _entered = turn.enter();
        let tokens = report.tokens.as_ref();
        record_all!(
            turn,
            { attributes::OUTCOME } = report.outcome.kind(),
            { attributes::CONVERSATION_COMPACTED } = report.abridged.then_some(true),
            { attributes::HISTORY } = report.history.kind(),
            { attributes::STREAMED } = report.streamed,
            { attributes::FALLBACK } = report.fallback().map(|fallback| fallback.kind()),
            { attributes::WINDOW } = report.context_window.kind(),
            { attributes::VERSION } = report.revision().map(|revision| int(revision.version())),
            { attributes::SUPERSEDED_CALLS } = positive(report.superseded_calls),
            { attributes::DOWNGRADED } = positive(report.downgraded),
            { attributes::REASONING_LEFT_OUT } = positive(report.reasoning_left_out),
            { attributes::TRANSLATED } = report.translation.map(|translation| int(translation.exchanges)),
            { attributes::HEAD_CHANGED } = report.head_changed.then_some(true),
            { attributes::BEGINS_WITH_COMPACTION } = report.begins_with_compaction.then_some(true),
            { attributes::CACHED_PREFIX_RATIO } = tokens.and_then(|tokens| tokens.cached_prefix_ratio()),
            { attributes::ESTIMATE_ERROR } = tokens.and_then(|tokens| tokens.estimate_error()),
        );
        if let TurnOutcome::Failed(error) = &report.outcome {
            fail(turn, error.kind());
        }
    }
}

/// Returns a number as an attribute, unless it is 0.
fn positive(number: usize) -> Option<i64> {
    (number > 0).then(|| int(number))
}

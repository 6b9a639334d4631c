//! The span of a turn, and those of waiting.

use tower_chat_history_core::ConversationId;
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, int},
};
use crate::{HistoryError, Outcome, TurnReport};

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitFor {
    /// Its place in the queue.
    Queue,
    /// Saves of the conversation that are under way.
    Saves,
    /// A summary that is being made.
    Summary,
}

/// A call waits.
pub(crate) fn wait(turn: &Span, what: WaitFor) -> Span {
    if turn.is_disabled() {
        return Span::none();
    }
    let what = match what {
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
        { attributes::WAIT_FOR } = what,
    )
}

impl Recorder {
    /// A turn begins: within whatever span the call is made in.
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
            { attributes::CACHED_PREFIX_RATIO } = Empty,
            { attributes::ESTIMATE_ERROR } = Empty,
        )
    }

    /// What becomes of a turn until it has begun.
    pub(crate) fn beginning<'a>(&'a self, turn: &'a Span) -> Beginning<'a> {
        Beginning { recorder: self, turn, is_told: false }
    }

    /// A turn has ended.
    pub(crate) fn ended(&self, turn: &Span, report: &TurnReport) {
        self.metrics.ended(report);
        if turn.is_disabled() {
            return;
        }
        // A span's end is when it was left the last time: this is the turn's end, also where a summary goes on within it.
        let _entered = turn.enter();
        let tokens = report.tokens.as_ref();
        let some = |number: usize| (number > 0).then(|| int(number));
        record_all!(
            turn,
            { attributes::OUTCOME } = report.outcome.kind(),
            { attributes::CONVERSATION_COMPACTED } = report.abridged.then_some(true),
            { attributes::HISTORY } = report.history.kind(),
            { attributes::STREAMED } = report.streamed,
            { attributes::FALLBACK } = report.fallback().map(|fallback| fallback.kind()),
            { attributes::WINDOW } = report.context_window.kind(),
            { attributes::VERSION } = report.revision().map(|revision| int(revision.version())),
            { attributes::SUPERSEDED_CALLS } = some(report.superseded_calls),
            { attributes::DOWNGRADED } = some(report.downgraded),
            { attributes::CACHED_PREFIX_RATIO } = tokens.and_then(|tokens| tokens.cached_prefix_ratio()),
            { attributes::ESTIMATE_ERROR } = tokens.and_then(|tokens| tokens.estimate_error()),
        );
        if let Outcome::Failed(error) = &report.outcome {
            fail(turn, error.kind());
        }
    }
}

/// A turn on its way. One that is dropped was abandoned: its caller left.
pub(crate) struct Beginning<'a> {
    recorder: &'a Recorder,
    turn: &'a Span,
    is_told: bool,
}

impl Beginning<'_> {
    /// It has begun: the rest is told at its end.
    pub(crate) fn begun(mut self) {
        self.is_told = true;
    }

    /// It has not begun.
    pub(crate) fn refused(self, error: &HistoryError) {
        match error {
            // The caller gets what was said: nothing is wrong.
            HistoryError::AlreadyRecorded(_) => self.tell(error.kind(), None),
            _ => self.tell("refused", Some(error.kind())),
        }
    }

    fn tell(mut self, outcome: &'static str, failed: Option<&'static str>) {
        self.is_told = true;
        self.recorder.metrics.turn(outcome, failed, None);
        let _entered = self.turn.enter();
        record_all!(self.turn, { attributes::OUTCOME } = outcome);
        if let Some(kind) = failed {
            fail(self.turn, kind);
        }
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            Beginning { recorder: self.recorder, turn: self.turn, is_told: true }.tell("abandoned", None);
        }
    }
}

/// Watermarks a span as failed.
pub(crate) fn fail(span: &Span, kind: &str) {
    record_all!(span, otel.status_code = "ERROR", { attributes::ERROR_TYPE } = kind);
}

//! The spans of a search for messages to show again, and of the preparation of later ones.

use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, int},
    turn::fail,
};
use crate::report::RecallReport;

/// A search in progress.
pub(crate) struct RecallStep<'a> {
    recorder: &'a Recorder,
    span: Span,
}

impl<'a> RecallStep<'a> {
    /// Begins the span of a search.
    pub(crate) fn of(recorder: &'a Recorder, turn: &Span) -> Self {
        let span = if turn.is_disabled() { Span::none() } else { span(turn) };
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

fn span(turn: &Span) -> Span {
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

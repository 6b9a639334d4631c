//! The span of planning a prompt.

use std::time::Duration;

use tower_chat_history_context::budget::PromptTokens;
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::int,
    turn::fail,
};
use crate::{error::HistoryError, report::TurnTokens};

/// The planning of a prompt in progress.
pub(crate) struct TrimStep(Span);

/// The sizes of a planned prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedPrompt<'a> {
    /// The token counts, if there is a budget.
    pub(crate) tokens: Option<&'a TurnTokens>,
    /// The number of messages in summary, window and input.
    pub(crate) messages: usize,
    pub(crate) evicted_messages: usize,
}

impl TrimStep {
    /// Begins the span of a plan.
    pub(crate) fn of(turn: &Span, counter: Option<&str>) -> Self {
        Self(if turn.is_disabled() { Span::none() } else { trim(turn, counter) })
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.0
    }

    /// Records the plan, or the error.
    pub(crate) fn ended(self, planned: Result<PlannedPrompt<'_>, &HistoryError>) {
        record_result(&self.0, planned);
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

fn record_result(trim: &Span, planned: Result<PlannedPrompt<'_>, &HistoryError>) {
    if trim.is_disabled() {
        return;
    }
    match planned {
        Ok(planned) => {
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
        Err(error) => {
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
    }
}

fn trim(turn: &Span, counter: Option<&str>) -> Span {
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

//! The report of a summary.

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::{ConversationId, MessageError, Seq, StoreError};

use crate::error::{BoxError, OtherDialect};

/// The report of an attempt to make a summary. It contains sizes, but no text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The position of the first exchange to summarize: the first one that the previous summary does not cover.
    pub from: Seq,
    /// The position after the last exchange that the summary covers. If there is no summary, the position after the
    /// last exchange to summarize.
    pub to: Seq,
    /// True if a call waited for the summary.
    pub waited_for: bool,
    /// The number of messages that were given to the summarizer.
    pub messages: usize,
    /// The number of tokens of the previous summary and the messages, which the summary replaces.
    pub replaced_tokens: u64,
    /// The cost of the summary.
    pub cost: SummaryCost,
    /// The summary's size in tokens, if it was accepted.
    pub tokens: Option<u32>,
    /// The outcome.
    pub outcome: SummaryOutcome,
}

/// The outcome of an attempt to make a summary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SummaryOutcome {
    /// The summary is stored. Later prompts contain it.
    Stored,
    /// The summary is in the prompt of the call that waited for it. It will be stored with that call's exchange.
    Made,
    /// Another summary was stored first that covers at least as many exchanges. This summary is discarded.
    Superseded,
    /// A part of the exchanges was summarized, and this summary is stored: it covers the exchanges before
    /// [`to`](SummaryReport::to). The next call of the summarizer failed, or its answer was refused. A later turn
    /// retries the rest.
    Part(Arc<SummaryError>),
    /// No summary was made, or its text was refused. The window is trimmed without it. A later turn retries it.
    Rejected(Arc<SummaryError>),
    /// The summary could not be stored, or the exchanges that it was to cover could not be read.
    Failed(Arc<StoreError>),
}

impl SummaryOutcome {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Made => "made",
            Self::Superseded => "superseded",
            Self::Part(_) => "part",
            Self::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => "no_gain",
            Self::Rejected(_) => "rejected",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns a short constant name of the error, if there was one.
    #[must_use]
    pub fn error_kind(&self) -> Option<&'static str> {
        match self {
            // There was too little to summarize, which is not a failure.
            Self::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => None,
            Self::Part(error) | Self::Rejected(error) => Some(error.kind()),
            Self::Failed(error) => Some(error.kind()),
            Self::Stored | Self::Made | Self::Superseded => None,
        }
    }
}

impl SummaryReport {
    /// Returns `true` if there is a newer summary than before the attempt: the one that was made, a part of it, or
    /// another one that superseded it.
    #[must_use]
    pub const fn is_summarized(&self) -> bool {
        matches!(
            self.outcome,
            SummaryOutcome::Stored | SummaryOutcome::Made | SummaryOutcome::Part(_) | SummaryOutcome::Superseded
        )
    }
}

/// The cost of a summary, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryCost {
    /// The number of calls of the summarizer, including calls that failed or were dropped after the timeout.
    pub calls: u32,
    /// The input tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the previous summary and the messages are counted; the summarizer's instructions are not.
    pub input_tokens: u64,
    /// The output tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the answer are counted.
    pub output_tokens: u64,
}

/// The reason why a summary was not made, or not accepted.
///
/// `Display` and `Debug` show sizes, but no text. The [source](std::error::Error::source) is an error of the
/// summarizer, which may quote its input.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// The summary is empty.
    #[error("the summarizer answered with an empty summary")]
    Empty,
    /// The answer reached its token limit before the summary was complete. So did the answer to a second request, for
    /// a shorter summary.
    #[error(
        "the summary reached its token limit before it was complete, twice: raise the limit, or use a model \
         that reasons less"
    )]
    CutOff,
    /// The summary has more tokens than allowed.
    #[error("the summary has {tokens} tokens, but only {allowed} are allowed")]
    TooLong {
        /// The number of tokens of the summary.
        tokens: u32,
        /// The largest allowed number of tokens.
        allowed: u32,
    },
    /// The summary has at least as many tokens as the text that it would replace.
    #[error("the summary has {tokens} tokens, but the text that it would replace has only {replaces}")]
    NoGain {
        /// The number of tokens of the summary.
        tokens: u32,
        /// The number of tokens of the previous summary and the messages together.
        replaces: u64,
    },
    /// The summarizer failed.
    #[error("the summarizer failed")]
    Failed(#[source] BoxError),
    /// The summary was not made within the timeout.
    #[error("the summary was not made within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// An exchange to summarize is in another dialect than that of the call.
    #[error(transparent)]
    OtherDialect(OtherDialect),
    /// The dialect could not write a shorter form of a message that is too large for one call of the summarizer.
    #[error("a message could not be shortened in its dialect")]
    Shortened(#[source] MessageError),
}

// Written by hand, because a derived implementation would show the summarizer's own error.
impl fmt::Debug for SummaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::CutOff => f.write_str("CutOff"),
            Self::TooLong { tokens, allowed } => {
                f.debug_struct("TooLong").field("tokens", tokens).field("allowed", allowed).finish()
            }
            Self::NoGain { tokens, replaces } => {
                f.debug_struct("NoGain").field("tokens", tokens).field("replaces", replaces).finish()
            }
            Self::Failed(_) => f.debug_struct("Failed").finish_non_exhaustive(),
            Self::TimedOut(after) => f.debug_tuple("TimedOut").field(after).finish(),
            Self::OtherDialect(error) => f.debug_tuple("OtherDialect").field(error).finish(),
            Self::Shortened(_) => f.debug_struct("Shortened").finish_non_exhaustive(),
        }
    }
}

impl SummaryError {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::CutOff => "cut_off",
            Self::TooLong { .. } => "too_long",
            Self::NoGain { .. } => "no_gain",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timed_out",
            Self::OtherDialect(_) => "other_dialect",
            Self::Shortened(_) => "shortened",
        }
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{ChatCompletions, DialectName, Message, Seq};

    use super::*;
    use crate::error::DialectPlace;

    #[test]
    fn errors_have_names_and_show_no_text() {
        let called = DialectName::of(&ChatCompletions);
        let other = OtherDialect { place: DialectPlace::Stored(Seq::FIRST), found: None, called };
        let unread = Message::from_json(r#"{"role":"user","content":"secret""#).unwrap_err();
        for (error, kind) in [
            (SummaryError::Empty, "empty"),
            (SummaryError::CutOff, "cut_off"),
            (SummaryError::TooLong { tokens: 2, allowed: 1 }, "too_long"),
            (SummaryError::NoGain { tokens: 2, replaces: 1 }, "no_gain"),
            (SummaryError::Failed("secret".into()), "failed"),
            (SummaryError::TimedOut(Duration::from_secs(1)), "timed_out"),
            (SummaryError::OtherDialect(other), "other_dialect"),
            (SummaryError::Shortened(unread), "shortened"),
        ] {
            assert_eq!(error.kind(), kind);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }
}

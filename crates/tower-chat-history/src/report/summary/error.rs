//! The errors of summaries.

use std::{fmt, time::Duration};

use tower_chat_history_core::MessageError;

use crate::error::{BoxError, OtherDialect};

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

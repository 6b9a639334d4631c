//! Why there is no summary.

use std::{fmt, time::Duration};

use crate::error::BoxError;

/// Why a summary was not made, or not accepted. It shows sizes and no text, in `Debug` too. Its source may be any error of a
/// summarizer, which may quote what it was given.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// It says nothing.
    #[error("the summarizer answered with an empty summary")]
    Empty,
    /// It was cut off by its length, and so was a shorter one.
    #[error("the summary was cut off by its length twice: allow more tokens, or use a model that thinks less")]
    CutOff,
    /// It has more tokens than it may have.
    #[error("the summary has {tokens} tokens, and {allowed} are allowed")]
    TooLong {
        /// Those that it has.
        tokens: u32,
        /// Those that it may have.
        allowed: u32,
    },
    /// It is not smaller than what it was to replace.
    #[error("the summary has {tokens} tokens, and what it was to replace has {replaces}")]
    NoGain {
        /// Those that it has.
        tokens: u32,
        /// Those of the previous summary and of the messages.
        replaces: u64,
    },
    /// The summarizer failed.
    #[error("the summarizer failed")]
    Failed(#[source] BoxError),
    /// It did not come in time.
    #[error("the summary was not made within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The summarizer panicked.
    #[error("the summarizer panicked")]
    Panicked,
}

// By hand: a summarizer's own error is not shown.
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
            Self::Panicked => f.write_str("Panicked"),
        }
    }
}

impl SummaryError {
    /// A short constant name of the reason, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::CutOff => "cut_off",
            Self::TooLong { .. } => "too_long",
            Self::NoGain { .. } => "no_gain",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_and_say_no_text() {
        for (error, kind) in [
            (SummaryError::Empty, "empty"),
            (SummaryError::CutOff, "cut_off"),
            (SummaryError::TooLong { tokens: 2, allowed: 1 }, "too_long"),
            (SummaryError::NoGain { tokens: 2, replaces: 1 }, "no_gain"),
            (SummaryError::Failed("secret".into()), "failed"),
            (SummaryError::TimedOut(Duration::from_secs(1)), "timed_out"),
            (SummaryError::Panicked, "panicked"),
        ] {
            assert_eq!(error.kind(), kind);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }
}

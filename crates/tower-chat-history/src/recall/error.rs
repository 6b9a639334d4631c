//! The errors of recall.

use std::time::Duration;

use tower_chat_history_core::{MessageError, Seq, StoreError};

use crate::error::BoxError;

/// The reason why no messages were recalled, although the call should have had some. The call itself does not fail.
///
/// It contains positions and sizes. It contains no message text, except for the error in [`Search`](Self::Search), which
/// the search itself wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecallError {
    /// The store failed.
    #[error("the messages to recall could not be read: {0}")]
    Store(#[from] StoreError),
    /// The search failed in another way.
    #[error("the search failed: {0}")]
    Search(#[source] BoxError),
    /// The search took longer than its [timeout](super::RecallOptions::timeout).
    #[error("the search took longer than {0:?}")]
    TimedOut(Duration),
    /// The message is larger than allowed.
    #[error("the recalled messages have {tokens} tokens, and {allowance} are allowed")]
    TooLarge {
        /// The size in tokens.
        tokens: u64,
        /// The largest allowed size in tokens.
        allowance: u64,
    },
    /// The message shows a part of the log that the prompt contains anyway.
    #[error("the recalled messages cite exchange {cited}, and the prompt contains the log from {before} on")]
    InWindow {
        /// The cited position.
        cited: Seq,
        /// The position from which the prompt contains the log.
        before: Seq,
    },
    /// The message is not a user message with a text and nothing else, in chat completions or in the dialect of the
    /// call.
    #[error("the recalled messages are not a user message with a text and nothing else")]
    NotAUserMessage,
    /// The [`Dialect`](crate::dialect::Dialect) of the call cannot read the message that it composed, which is a fault of
    /// its implementation.
    #[error("the dialect of the call cannot read the message with the recalled messages: {0}")]
    Composed(#[source] MessageError),
    /// The message has too many citations, or one without messages.
    #[error(
        "the recalled messages have {citations} citations: at most {max} are allowed, and none may be empty",
        max = Self::MAX_CITATIONS
    )]
    Citations {
        /// The number of citations.
        citations: usize,
    },
}

impl RecallError {
    /// The largest number of citations of one message. Even the largest prompts do not show so many.
    pub const MAX_CITATIONS: usize = 4_096;

    /// Creates the error for a search that failed.
    pub fn search(source: impl Into<BoxError>) -> Self {
        Self::Search(source.into())
    }

    /// Returns the text for a log event. It does not include the text of an error that the search itself returned,
    /// because that error may quote its input.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Search(_) => "the search failed".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Search(_) => "search",
            Self::TimedOut(_) => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::InWindow { .. } => "in_window",
            Self::NotAUserMessage => "not_a_user_message",
            Self::Composed(_) => "composed",
            Self::Citations { .. } => "citations",
        }
    }
}

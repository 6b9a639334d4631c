//! The errors of searches.

use std::time::Duration;

use tower_chat_history_core::{DialectName, Seq, StoreError};

/// The error of a search in the log of a store, or of its preparation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The store failed.
    #[error("the log could not be read: {0}")]
    Store(#[source] StoreError),
    /// An exchange is stored in a dialect that the search [does not know](crate::recall::LogSearch::dialect).
    #[error("exchange {seq} is stored in the dialect {dialect}, which the search does not know")]
    UnknownDialect {
        /// The position of the exchange.
        seq: Seq,
        /// The dialect of the exchange.
        dialect: DialectName,
    },
    /// The search took longer than its [time limit](crate::recall::LogSearch::time_limit).
    #[error("the search took longer than {0:?}")]
    TimedOut(Duration),
}

impl SearchError {
    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::UnknownDialect { .. } => "unknown_dialect",
            Self::TimedOut(_) => "timeout",
        }
    }
}

/// The reason to stop early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The incarnation ended, or there is no such conversation.
    Gone,
    TimedOut(Duration),
    Failed(SearchError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Gone => Self::Gone,
            error => Self::Failed(SearchError::Store(error)),
        }
    }
}

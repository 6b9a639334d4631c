//! The errors of searches and of the index.

use std::time::Duration;

use tower_chat_history_core::{AttachmentNameError, DialectName, Seq, StoreError};

use crate::varint::DecodeError;

/// The error of a search in a stored log, or of a step of its index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The store failed.
    #[error("the store of the index failed: {0}")]
    Store(#[source] StoreError),
    /// A record of the index is damaged.
    #[error(transparent)]
    Damaged(#[from] DecodeError),
    /// The name of a record is not allowed.
    #[error(transparent)]
    Name(#[from] AttachmentNameError),
    /// An exchange is stored in a dialect that the index [does not know](crate::StoredIndex::dialect).
    #[error("exchange {seq} is stored in the dialect {dialect}, which the index does not know")]
    UnknownDialect {
        /// The position of the exchange.
        seq: Seq,
        /// The dialect of the exchange.
        dialect: DialectName,
    },
    /// The search took longer than its [time limit](crate::StoredIndex::time_limit).
    #[error("the search took longer than {0:?}")]
    TimedOut(Duration),
}

impl IndexError {
    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Damaged(_) => "damaged_index",
            Self::Name(_) => "attachment_name",
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
    Failed(IndexError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Gone => Self::Gone,
            error => Self::Failed(IndexError::Store(error)),
        }
    }
}

impl From<AttachmentNameError> for Stop {
    fn from(error: AttachmentNameError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Failed(error.into())
    }
}

//! The failures of store calls.

use std::time::Duration;

use tower_chat_history_core::StoreError;

use crate::error::{HistoryError, SaveError};

/// A failed store call.
#[derive(Debug, thiserror::Error)]
pub(in crate::engine) enum StoreFailure {
    #[error(transparent)]
    Store(StoreError),
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl StoreFailure {
    /// Returns a short constant name, like [`SaveError::kind`].
    pub(in crate::engine) const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
        }
    }
}

impl From<StoreFailure> for HistoryError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Load(error),
            StoreFailure::Timeout(after) => Self::LoadTimeout(after),
        }
    }
}

impl From<StoreFailure> for SaveError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Store(error),
            StoreFailure::Timeout(after) => Self::Timeout(after),
        }
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => error,
            StoreFailure::Timeout(_) => Self::unavailable(failure),
        }
    }
}

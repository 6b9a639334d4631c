//! Calls of the store, which must not stop what they are a part of: bounded in time, and without the store's panics.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use tower_chat_history_core::StoreError;

use super::{Engine, timer};
use crate::SaveError;

/// Why the store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreFailure {
    #[error("the store failed")]
    Store(#[source] StoreError),
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the store panicked")]
    Panicked,
}

impl StoreFailure {
    /// A short constant name, as [`SaveError::kind`] has it.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
            Self::Panicked => "panicked",
        }
    }
}

impl From<StoreFailure> for SaveError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Store(error),
            StoreFailure::Timeout(after) => Self::Timeout(after),
            StoreFailure::Panicked => Self::Panicked,
        }
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => error,
            StoreFailure::Timeout(_) => Self::unavailable(failure),
            StoreFailure::Panicked => Self::backend(failure),
        }
    }
}

impl Engine {
    /// Returns what a call of the store says, if it does so within the [store
    /// timeout](crate::HistoryOptions::store_timeout). The call is made within the future, for a store may panic before
    /// it returns one of its own.
    pub(super) async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreFailure> {
        timer::timeout(self.options().store_timeout, without_panic(call))
            .await
            .unwrap_or_else(|after| Err(StoreFailure::Timeout(after)))
    }
}

/// Returns what a call of the store says, without a limit of time. Made within the future, as for
/// [`bounded`](Engine::bounded).
pub(super) async fn without_panic<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreFailure> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(said) => said.map_err(StoreFailure::Store),
        Err(_) => Err(StoreFailure::Panicked),
    }
}

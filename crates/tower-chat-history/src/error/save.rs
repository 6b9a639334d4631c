//! The errors of saves.

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::StoreError;

use super::{HistoryError, OtherDialect};

/// An error of storing an exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store refused the exchange, or failed.
    #[error("the exchange could not be stored: {0}")]
    Store(#[source] StoreError),
    /// The store did not answer within this time. The exchange may or may not be stored. To find out, repeat the call
    /// with the same exchange id: if the exchange was stored, the call fails with [`HistoryError::AlreadyRecorded`].
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The store, or other code of the program that a save calls, panicked. The exchange may or may not be stored.
    #[error("the save of the exchange panicked")]
    Panicked,
    /// An attempt may have stored the exchange although it failed, and the log does not show the outcome: it was pruned
    /// beyond the exchange's position, or another call may have stored the exchange with this id.
    #[error("the outcome of storing the exchange is unknown: the log does not show it any more")]
    UnknownOutcome,
    /// The reply is in another dialect than that of the call. Nothing was stored.
    #[error("the exchange was not stored: {0}")]
    OtherDialect(#[from] OtherDialect),
}

impl SaveError {
    /// Returns a short constant name of the kind of failure, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
            Self::Panicked => "panicked",
            Self::UnknownOutcome => "unknown_outcome",
            Self::OtherDialect(_) => "other_dialect",
        }
    }
}

/// An error of [`Engine::store_results`](crate::Engine::store_results).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreResultsError {
    /// The results answer no open calls, the conversation could not be loaded, or the wait for earlier calls failed.
    /// Nothing was stored.
    #[error("{0}")]
    History(#[from] HistoryError),
    /// The store failed. The results may or may not be stored. It is safe to repeat the call if the caller has set an
    /// exchange id.
    #[error("the tool results could not be stored: {0}")]
    Save(#[from] SaveError),
    /// In each attempt, the conversation changed between the check of the results and their append. Nothing was
    /// stored.
    #[error("the tool results were not stored: the conversation changed during each of {checks} attempts")]
    Contended {
        /// The number of attempts.
        checks: u32,
    },
}

/// The model answered, but the exchange could not be stored. The error contains the response.
///
/// ```
/// # use tower_chat_history::{BoxError, Unsaved};
/// fn answer(error: BoxError) -> Result<String, BoxError> {
///     let failed = error.downcast::<Unsaved<String>>()?;
///     eprintln!("not saved: {failed}");
///     Ok(failed.into_response())
/// }
/// ```
#[derive(thiserror::Error)]
#[error("the model answered, but the exchange was not saved: {source}")]
pub struct Unsaved<R> {
    response: R,
    source: Arc<SaveError>,
}

impl<R> Unsaved<R> {
    pub(crate) const fn new(response: R, source: Arc<SaveError>) -> Self {
        Self { response, source }
    }

    /// Returns the same failure with another form of the response.
    pub(crate) fn with_response<T>(self, response: T) -> Unsaved<T> {
        Unsaved { response, source: self.source }
    }

    /// Returns the model's response.
    pub const fn response(&self) -> &R {
        &self.response
    }

    /// Returns the model's response and drops the error.
    pub fn into_response(self) -> R {
        self.response
    }

    /// Returns the reason why the exchange was not saved.
    pub fn reason(&self) -> &SaveError {
        &self.source
    }
}

impl<R> fmt::Debug for Unsaved<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsaved").field("source", &self.source).finish_non_exhaustive()
    }
}

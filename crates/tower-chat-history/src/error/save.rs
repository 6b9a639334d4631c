//! The errors of saves.

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::StoreError;

use super::HistoryError;

/// An error of storing an exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store refused the exchange, or failed.
    #[error("the exchange could not be stored: {0}")]
    Store(#[source] StoreError),
    /// The store did not answer in time. The exchange may or may not be stored; a call with the same exchange id shows
    /// which.
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The store panicked in every attempt.
    #[error("the store panicked while it stored the exchange")]
    Panicked,
}

impl SaveError {
    /// Returns a short constant name of the kind of failure, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
            Self::Panicked => "panicked",
        }
    }
}

/// An error of [`Engine::store_results`](crate::Engine::store_results).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreResultsError {
    /// The results do not fit the conversation, it could not be loaded, or it was busy. Nothing was stored.
    #[error("{0}")]
    History(#[from] HistoryError),
    /// The store failed. The results may or may not be stored. Repeating the call with the same exchange id is safe.
    #[error("the tool results could not be stored: {0}")]
    Save(#[from] SaveError),
    /// The conversation changed each time between the check of the results and their append. Nothing was stored.
    #[error("the conversation changed {checks} times while tool results were being stored")]
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

//! What a call can fail with, beside the inner service's own errors.

pub(crate) mod chain;
mod kind;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_context::{
    budget::DoesNotFit,
    plan::{FitError, InputError, TranscriptError},
};
use tower_chat_history_core::{Recorded, StoreError};

pub use self::kind::error_type;

/// Any error, as tower's middlewares pass it on.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A call that history kept from the model. Found by downcasting the service's [`BoxError`].
///
/// The [cases](crate::cases#errors-over-http) have a table of HTTP statuses, and say when the same call may succeed if
/// it is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The input cannot stand behind the conversation.
    #[error("the input does not fit the conversation: {0}")]
    Input(#[from] InputError),
    /// What the caller resends is not what the log ends with.
    #[error("what the request resends of the conversation is not what is stored: {0}")]
    Transcript(#[from] TranscriptError),
    /// The prompt is larger than the model can read, with everything left out that may go.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
    /// The exchange id is in the log already. The model is not called again; here is what it said.
    ///
    /// The response that it was is made again by [`to_json_response`](crate::adapt::to_json_response), by `to_response`
    /// of the crate `tower-chat-history-openai`, or from [`Reply::recorded`](crate::Reply::recorded).
    #[error("exchange {} is already recorded at position {}", .0.exchange.id, .0.seq)]
    AlreadyRecorded(Recorded),
    /// The history could not be loaded.
    #[error("the conversation's history could not be loaded")]
    Load(#[source] StoreError),
    /// The history did not come in time.
    #[error("the conversation's history did not come within {} ms", .0.as_millis())]
    LoadTimeout(Duration),
    /// The store panicked.
    #[error("the store panicked while the conversation's history was being loaded")]
    LoadPanicked,
    /// Too many calls wait for their turn on this conversation.
    #[error("{max_waiting} calls already wait for their turn on this conversation")]
    QueueFull {
        /// How many may wait.
        max_waiting: usize,
    },
    /// The calls before did not end in time.
    #[error("the conversation was busy for {} ms", .0.as_millis())]
    QueueTimeout(Duration),
    /// A store timeout, a queue, summaries or an idle timeout of streams are set, and there is no tokio runtime to
    /// measure time with.
    #[error(
        "a store timeout, a queue, summaries or a stream idle timeout need a tokio runtime: call from within one, or set none"
    )]
    NoRuntime,
}

impl HistoryError {
    /// Returns whether it is the store's failure to load the history, in time or at all.
    pub(crate) const fn is_load(&self) -> bool {
        matches!(self, Self::Load(_) | Self::LoadTimeout(_) | Self::LoadPanicked)
    }

    /// A short constant name of the kind of failure, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Transcript(_) => "transcript",
            Self::DoesNotFit(_) => "does_not_fit",
            Self::AlreadyRecorded(_) => "already_recorded",
            Self::Load(error) => error.kind(),
            Self::LoadTimeout(_) => "timeout",
            Self::LoadPanicked => "panicked",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueTimeout(_) => "queue_timeout",
            Self::NoRuntime => "no_runtime",
        }
    }
}

/// A reply that could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store refused it or failed.
    #[error("the exchange could not be stored")]
    Store(#[source] StoreError),
    /// The store did not answer in time. The exchange may be stored or not; its id tells.
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The store panicked, in each attempt.
    #[error("the store panicked while the exchange was being stored")]
    Panicked,
}

impl SaveError {
    /// A short constant name of the kind of failure, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
            Self::Panicked => "panicked",
        }
    }
}

/// A stream that brought no item for as long as the [idle timeout](crate::HistoryOptions::stream_idle_timeout), and was
/// ended before its reply was complete.
///
/// It is the stream's last item, as an error of the stream's own type: adapters for streams of any error type need
/// `E: From<StreamStalled>`. [`BoxError`] and [`std::io::Error`] have that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no item of the stream came within {} ms", .after.as_millis())]
pub struct StreamStalled {
    /// How long it was waited for.
    pub after: Duration,
}

impl From<StreamStalled> for std::io::Error {
    fn from(stalled: StreamStalled) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, stalled)
    }
}

/// Tool results that were [not stored](crate::Engine::store_results).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreResultsError {
    /// They do not fit the conversation, or it was busy. Nothing was stored.
    #[error(transparent)]
    Refused(HistoryError),
    /// The conversation could not be loaded. Nothing was stored.
    #[error("the conversation's history could not be loaded")]
    Load(#[source] StoreError),
    /// The conversation did not come in time. Nothing was stored.
    #[error("the conversation's history did not come within {} ms", .0.as_millis())]
    LoadTimeout(Duration),
    /// The store panicked at load. Nothing was stored.
    #[error("the store panicked while the conversation's history was being loaded")]
    LoadPanicked,
    /// The store failed. They may be stored or not: repeating it with the same exchange id is safe.
    #[error("the tool results could not be stored")]
    Save(#[from] SaveError),
    /// The conversation changed each time between the check of the results and their append. Nothing was stored.
    #[error("the conversation changed while tool results were being stored, {checks} times")]
    Contended {
        /// How often it was tried.
        checks: u32,
    },
}

impl From<HistoryError> for StoreResultsError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Load(error) => Self::Load(error),
            HistoryError::LoadTimeout(after) => Self::LoadTimeout(after),
            HistoryError::LoadPanicked => Self::LoadPanicked,
            refused => Self::Refused(refused),
        }
    }
}

/// The model answered, and the exchange could not be stored: the answer is in here.
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
#[error("the model answered, but the exchange was not saved")]
pub struct Unsaved<R> {
    response: R,
    source: Arc<SaveError>,
}

impl<R> Unsaved<R> {
    pub(crate) const fn new(response: R, source: Arc<SaveError>) -> Self {
        Self { response, source }
    }

    /// The same failure, with another form of what the model said.
    pub(crate) fn with_response<T>(self, response: T) -> Unsaved<T> {
        Unsaved { response, source: self.source }
    }

    /// The model's response.
    pub const fn response(&self) -> &R {
        &self.response
    }

    /// The model's response.
    pub fn into_response(self) -> R {
        self.response
    }

    /// Why it was not saved.
    pub fn reason(&self) -> &SaveError {
        &self.source
    }
}

impl<R> fmt::Debug for Unsaved<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsaved").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Work was still pending when the time to drain was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{saves} saves, {streams} detached streams and {summaries} summaries were still pending")]
pub struct DrainError {
    /// Saves that are not done.
    pub saves: usize,
    /// Detached streams that have not ended.
    pub streams: usize,
    /// Summaries that are not made.
    pub summaries: usize,
}

impl From<FitError> for HistoryError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Input(error) => Self::Input(error),
            FitError::DoesNotFit(error) => Self::DoesNotFit(error),
        }
    }
}

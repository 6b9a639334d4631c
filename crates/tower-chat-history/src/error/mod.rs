//! The errors of calls, saves and stores.
//!
//! A service of the [layer](crate::ChatHistoryLayer) returns every error as a [`BoxError`]. To handle an error,
//! downcast it to one of these types:
//!
//! | type | meaning | model called |
//! |---|---|---|
//! | [`HistoryError`] | the call failed before the model was called | no |
//! | [`MissingConversation`] | the call does not say which conversation it belongs to | no |
//! | `HeaderError` (feature `http`) | a header with options of the call cannot be used | no |
//! | [`Unsaved<R>`](Unsaved) | the exchange could not be stored; contains the response | yes |
//! | the inner service's own error, or the adapter's | the error is returned unchanged | depends on the error |
//!
//! The `R` of [`Unsaved`] is the type of the response:
//!
//! | integration | `R` |
//! |---|---|
//! | [`Json`](crate::adapt::Json) | `serde_json::Value` |
//! | [`Custom`](crate::adapt::Custom) | the inner service's response type |
//! | `OpenAi` of `tower-chat-history-openai` | `CreateChatCompletionResponse` |
//! | `OpenAiHistory` of `tower-chat-history-openai` | `reqwest::Response`, in `OpenAIError::Boxed` |
//! | [`Turn::commit`](crate::Turn::commit) | [`Reply`](crate::Reply) |
//!
//! The texts of all errors include their causes. They contain positions, ids and sizes, and never message text.
//!
//! A [table](crate::cases#errors-over-http) lists HTTP statuses for these errors.

mod dialect;
#[cfg(feature = "http")]
mod header;
mod kind;
mod save;

use std::time::Duration;

use tower_chat_history_context::{budget::DoesNotFit, plan::FitError};
use tower_chat_history_core::{DialectName, MessageError, Recorded};

pub(crate) use self::dialect::check_dialect;
#[cfg(feature = "http")]
pub use self::header::HeaderError;
pub use self::{
    dialect::{DialectPlace, OtherDialect},
    kind::error_type,
    save::{SaveError, StoreResultsError, Unsaved},
};
#[doc(inline)]
pub use tower_chat_history_context::plan::{InputError, TranscriptError};
#[doc(inline)]
pub use tower_chat_history_core::StoreError;

use crate::limits::LimitExceeded;

/// Any error, as tower's middlewares return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error that occurred before the model was called.
///
/// To get it, downcast the service's [`BoxError`]. The [cases](crate::cases#errors-over-http) include a table of HTTP
/// statuses. The table also shows for which errors the same call may succeed later.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The input is not valid, or not valid in this conversation.
    #[error("the input is not valid in this conversation: {0}")]
    Input(#[from] InputError),
    /// The messages that the caller resends do not match the end of the log.
    #[error("the messages that the request resends do not match the stored conversation: {0}")]
    Transcript(#[from] TranscriptError),
    /// The prompt is too large for the model, even without all parts that may be left out.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
    /// The call exceeds a [limit](crate::limits).
    #[error("the call is refused: {0}")]
    Limit(#[from] LimitExceeded),
    /// The log already contains an exchange with this id. The value is the stored exchange. The model is not called
    /// again.
    ///
    /// [`to_json_response`](crate::adapt::to_json_response), `to_response` of the crate `tower-chat-history-openai`,
    /// and [`Reply::recorded`](crate::Reply::recorded) convert it into a response.
    #[error("exchange {} is already recorded at position {}", .0.exchange.id, .0.seq)]
    AlreadyRecorded(Recorded),
    /// The history could not be loaded.
    #[error("the conversation's history could not be loaded: {0}")]
    Load(#[source] StoreError),
    /// The store did not return the history within the [store timeout](crate::HistoryOptions::store_timeout).
    #[error("the conversation's history was not loaded within {} ms", .0.as_millis())]
    LoadTimeout(Duration),
    /// A stored exchange, the input, or another part of the call is in another dialect than that of the call. If the
    /// input is empty, set the [dialect of the call](crate::TurnInput::dialect).
    #[error(transparent)]
    OtherDialect(#[from] OtherDialect),
    /// A [`Dialect`](crate::dialect::Dialect) cannot read a message that it composed itself, which is a fault of its
    /// implementation.
    #[error("the dialect {dialect} cannot read a message that it composed: {source}")]
    Composed {
        /// The dialect.
        dialect: DialectName,
        /// The cause.
        source: MessageError,
    },
    /// The queue of the conversation is full: too many calls are waiting
    /// ([`OnConflict::Serialize`](crate::policy::OnConflict::Serialize)).
    #[error("{max_waiting} calls of the conversation are already waiting")]
    QueueFull {
        /// The number of calls that may wait.
        max_waiting: usize,
    },
    /// The calls ahead in the conversation's queue did not end within this time.
    #[error("the earlier calls of the conversation did not end within {} ms", .0.as_millis())]
    QueueTimeout(Duration),
}

impl HistoryError {
    /// Returns `true` if the store failed to load the history, or did not load it in time.
    pub(crate) const fn is_load(&self) -> bool {
        matches!(self, Self::Load(_) | Self::LoadTimeout(_))
    }

    /// Returns a short constant name of the kind of failure, for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Transcript(_) => "transcript",
            Self::DoesNotFit(_) => "does_not_fit",
            Self::Limit(exceeded) => exceeded.kind.name(),
            Self::AlreadyRecorded(_) => "already_recorded",
            Self::Load(error) => error.kind(),
            Self::LoadTimeout(_) => "timeout",
            Self::OtherDialect(_) => "other_dialect",
            Self::Composed { .. } => "composed",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueTimeout(_) => "queue_timeout",
        }
    }
}

impl From<FitError> for HistoryError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Input(error) => Self::Input(error),
            FitError::DoesNotFit(error) => Self::DoesNotFit(error),
        }
    }
}

/// The error for a call that neither names a conversation nor is marked as stateless.
///
/// If the adapter reads the conversation from the running task ([`in_conversation`](crate::in_conversation)), the
/// most likely cause is a `tokio::spawn` inside the scope: a spawned task does not inherit it. Wrap the spawned
/// future in `in_conversation` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call names no conversation: set a conversation id (or its header), make the call within in_conversation \
     (which a spawned task does not inherit), or mark the call as stateless"
)]
pub struct MissingConversation;

/// The error that ends a stream if it yields no item within the [idle
/// timeout](crate::HistoryOptions::stream_idle_timeout) while its reply is incomplete.
///
/// It is the stream's last item, converted to the stream's own error type. Adapters for streams of any error type
/// therefore need `E: From<StreamStalled>`, which [`BoxError`] and [`std::io::Error`] implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream yielded no item within {} ms", .after.as_millis())]
pub struct StreamStalled {
    /// The idle timeout.
    pub after: Duration,
}

impl From<StreamStalled> for std::io::Error {
    fn from(stalled: StreamStalled) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, stalled)
    }
}

/// The error of [`Engine::drain`](crate::Engine::drain): work was still pending after the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "{saves} saves, {streams} detached streams, {repairs} cuts of repaired turns, {summaries} summaries and \
     {preparations} preparations of recall were still pending"
)]
pub struct DrainError {
    /// The number of saves that are not finished.
    pub saves: usize,
    /// The number of detached streams that have not ended.
    pub streams: usize,
    /// The number of conversations in which the [cut](crate::store::Cut::encrypted_from) of a repaired turn is not
    /// stored yet.
    pub repairs: usize,
    /// The number of summaries that are not finished.
    pub summaries: usize,
    /// The number of preparations of [recall](crate::recall) that are not finished.
    pub preparations: usize,
}

#[cfg(test)]
mod tests {
    use std::{error::Error, sync::Arc};

    use tower_chat_history_core::{ConversationId, Profile, Seq};

    use super::*;

    #[test]
    fn the_text_of_an_error_includes_its_causes() {
        let refused = || StoreError::unavailable(std::io::Error::other("connection refused"));
        let store = "the store is not available: connection refused";
        let load = HistoryError::Load(refused());
        assert_eq!(load.to_string(), format!("the conversation's history could not be loaded: {store}"));
        assert!(load.source().is_some_and(<dyn Error>::is::<StoreError>), "the source can still be downcast");
        let save = SaveError::Store(refused());
        assert_eq!(save.to_string(), format!("the exchange could not be stored: {store}"));
        let unsaved = Unsaved::new((), Arc::new(save));
        let text = format!("the model answered, but the exchange was not saved: {}", unsaved.reason());
        assert_eq!(unsaved.to_string(), text);
        let results = StoreResultsError::Save(SaveError::Store(refused()));
        let text = format!("the tool results could not be stored: the exchange could not be stored: {store}");
        assert_eq!(results.to_string(), text);
    }

    #[test]
    fn conversation_ids_are_not_in_the_text() {
        let conversation = || ConversationId::new(["secret-user"]).unwrap();
        let (seq, profile) = (Seq::new(7), Profile::default());
        let exchange = StoreError::Corrupt { conversation: conversation(), seq, source: "no JSON".into() };
        let text = "the conversation's history could not be loaded: exchange 7 cannot be read: no JSON";
        assert_eq!(HistoryError::Load(exchange).to_string(), text);
        let compaction =
            StoreError::CorruptCompaction { conversation: conversation(), profile, source: "no JSON".into() };
        let text = "the exchange could not be stored: the compaction of profile default cannot be read: no JSON";
        assert_eq!(SaveError::Store(compaction).to_string(), text);
    }
}

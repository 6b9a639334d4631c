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

use std::{borrow::Cow, error::Error, fmt, sync::Arc, time::Duration};

#[doc(inline)]
pub use crate::context::plan::{InputError, TranscriptError};
use crate::context::{budget::DoesNotFit, plan::FitError};
#[doc(inline)]
pub use tower_chat_history_core::StoreError;
use tower_chat_history_core::{Dialect, DialectName, Message, MessageError, Recorded, Seq};

use crate::limits::LimitExceeded;

/// Any error, as tower's middlewares return it.
pub type BoxError = Box<dyn Error + Send + Sync>;

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
    /// A [`Dialect`] cannot read a message that it composed itself, which is a fault of its
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

/// The error for a message in another [dialect](crate::dialect) than that of the call. Without
/// [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate), one conversation has one dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} is in {}, and the call is in the dialect {called}", Found(.found.as_ref()))]
#[non_exhaustive]
pub struct OtherDialect {
    /// The place of the message.
    pub place: DialectPlace,
    /// The dialect of the message, or `None` if it was not read in a dialect before and cannot be read in that of the
    /// call.
    pub found: Option<DialectName>,
    /// The dialect of the call.
    pub called: DialectName,
}

/// The place of a message in another dialect. Positions are indexes in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialectPlace {
    /// The stored exchange at this position.
    Stored(Seq),
    /// The stored exchange at this position, whose tool calls the input answers, or whose results wait for the model's
    /// reply. A turn has one dialect, also under
    /// [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate).
    OpenTurn(Seq),
    /// This message of the input, or of the results to store.
    Input(usize),
    /// This message of the transcript that the caller resends.
    Transcript(usize),
    /// This message of those that are [stored instead](crate::CallOptions::store_instead) of the input.
    Instead(usize),
    /// This message of the reply.
    Reply(usize),
}

impl fmt::Display for DialectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenTurn(seq) => write!(f, "exchange {seq} of the open turn"),
            Self::Stored(seq) => write!(f, "exchange {seq} of the conversation"),
            Self::Input(position) => write!(f, "message {position} of the input"),
            Self::Transcript(position) => write!(f, "message {position} of the transcript"),
            Self::Instead(position) => write!(f, "message {position} of `store_instead`"),
            Self::Reply(position) => write!(f, "message {position} of the reply"),
        }
    }
}

struct Found<'a>(Option<&'a DialectName>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(found) => write!(f, "the dialect {found}"),
            None => f.write_str("an unknown dialect"),
        }
    }
}

/// Checks that these messages are in this dialect. Messages that were not read before are read.
pub(crate) fn check_dialect(
    dialect: &'static dyn Dialect,
    messages: &[Message],
    place: fn(usize) -> DialectPlace,
) -> Result<(), OtherDialect> {
    for (position, message) in messages.iter().enumerate() {
        let is_read = message.read_in(dialect).is_ok();
        let found = message.dialect();
        // A dialect that is not known is an error of the read.
        if !is_read || found.is_none_or(|found| found.name() != dialect.name()) {
            let called = DialectName::of(dialect);
            return Err(OtherDialect { place: place(position), found: found.map(DialectName::of), called });
        }
    }
    Ok(())
}

/// The error for a header that names a conversation or sets an option of a call, and cannot be used (feature `http`).
/// The model was not called.
///
/// The error names the header, and never shows its value.
#[cfg(feature = "http")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header is set more than once, so it is not known which value applies.
    #[error("the header {name} is set more than once")]
    Repeated {
        /// The name of the header.
        name: http::HeaderName,
    },
    /// The value has characters other than visible ASCII.
    #[error("the value of the header {name} has characters that are not visible ASCII")]
    NotAscii {
        /// The name of the header.
        name: http::HeaderName,
    },
    /// The value is not a conversation id.
    #[error("the value of the header {name} is not a conversation id: {source}")]
    ConversationId {
        /// The name of the header.
        name: http::HeaderName,
        /// The cause.
        source: tower_chat_history_core::ConversationIdError,
    },
    /// The value is not an exchange id.
    #[error("the value of the header {name} is not an exchange id: {source}")]
    ExchangeId {
        /// The name of the header.
        name: http::HeaderName,
        /// The cause.
        source: tower_chat_history_core::InvalidValue,
    },
    /// The value is neither `true` nor `false`.
    #[error("the value of the header {name} is neither true nor false")]
    NotBoolean {
        /// The name of the header.
        name: http::HeaderName,
    },
    /// The value is not a decimal number, or the number is too large.
    #[error("the value of the header {name} is not a decimal number, or is too large")]
    NotANumber {
        /// The name of the header.
        name: http::HeaderName,
    },
}

/// The error for a value that an option cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A text names no variant of [`CaptureContent`](crate::telemetry::CaptureContent).
    #[error("invalid value for the capture of content: expected NO_CONTENT, SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT")]
    CaptureContent,
    /// The [list of stores](crate::RoutedStore::over) is empty.
    #[error("invalid list of stores: expected at least one store")]
    NoStore,
    /// Two stores of the [list](crate::RoutedStore::over) have the same name.
    #[error("invalid list of stores: the name {name} occurs twice")]
    RepeatedStore {
        /// The name.
        name: String,
    },
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
    /// The number of conversations in which the [cut](crate::store::Positions::encrypted_from) of a repaired turn is not
    /// stored yet.
    pub repairs: usize,
    /// The number of summaries that are not finished.
    pub summaries: usize,
    /// The number of preparations of [recall](crate::recall) that are not finished.
    pub preparations: usize,
}

/// Returns the name of an error in spans and metrics.
///
/// If the error or one of its sources is a [`HistoryError`] or a [`SaveError`], the name is that error's `kind`.
/// Otherwise, it is `_OTHER`, the value that OpenTelemetry's conventions define for this case.
#[must_use]
pub fn error_type(error: &(dyn Error + 'static)) -> Cow<'static, str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<HistoryError>() {
            return error.kind().into();
        }
        if let Some(error) = error.downcast_ref::<SaveError>() {
            return error.kind().into();
        }
        next = error.source();
    }
    "_OTHER".into()
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{ConversationId, Profile};

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
        let seq = Seq::new(7);
        let profile = Profile::default();
        let exchange = StoreError::Corrupt { conversation: conversation(), seq, source: "no JSON".into() };
        let text = "the conversation's history could not be loaded: exchange 7 cannot be read: no JSON";
        assert_eq!(HistoryError::Load(exchange).to_string(), text);
        let compaction =
            StoreError::CorruptCompaction { conversation: conversation(), profile, source: "no JSON".into() };
        let text = "the exchange could not be stored: the compaction of profile default cannot be read: no JSON";
        assert_eq!(SaveError::Store(compaction).to_string(), text);
    }
}

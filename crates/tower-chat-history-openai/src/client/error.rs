//! Calls that the client door cannot take.

use tower_chat_history::{ConversationIdError, ExchangeIdError, MessageError};

use super::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, STATELESS};

/// A chat call that does not say which conversation it belongs to, or whose body cannot be read. Nothing has been sent.
///
/// The caller of a client gets it in [`OpenAIError::Boxed`](async_openai::error::OpenAIError::Boxed), by downcasting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call names no conversation. A task that was spawned within
    /// [`in_conversation`](tower_chat_history::in_conversation) does not inherit it.
    #[error(
        "the chat call names no conversation: set the header {CONVERSATION_ID}, make the call within in_conversation (which a \
         spawned task does not inherit), or set {STATELESS}: true for no memory"
    )]
    NoConversation,
    /// The conversation header has no conversation id.
    #[error("the header {CONVERSATION_ID} has no conversation id")]
    Conversation(#[source] ConversationIdError),
    /// The exchange header has no exchange id.
    #[error("the header {EXCHANGE_ID} has no exchange id")]
    Exchange(#[source] ExchangeIdError),
    /// The header for calls without memory is neither `true` nor `false`.
    #[error("the header {STATELESS} is neither true nor false")]
    Stateless,
    /// The header for calls that leave no trace is neither `true` nor `false`.
    #[error("the header {DONT_STORE} is neither true nor false")]
    DontStore,
    /// The header for few-shot examples has no decimal number of messages.
    #[error("the header {FEW_SHOT_MESSAGES} has no number of messages")]
    FewShotMessages,
    /// A header was set more than once: which value counts would be a guess.
    #[error("the header {name} is set more than once")]
    Repeated {
        /// Which header.
        name: &'static str,
    },
    /// A header has a value that is not visible ASCII.
    #[error("the header {name} has characters that are not visible ASCII")]
    NotAscii {
        /// Which header.
        name: &'static str,
    },
    /// The body is a stream, which cannot be read and sent again.
    #[error("the chat call's body is a stream: history needs the whole body")]
    StreamedBody,
    /// The body is no JSON object with one list of messages.
    #[error("the chat call's body is no JSON object with one list of messages (line {line}, column {column})")]
    Body {
        /// Where it is not as expected, counted from 1; 0 if that is not known.
        line: usize,
        /// Where it is not as expected, counted from 1; 0 if that is not known.
        column: usize,
    },
    /// One of the messages is no chat message.
    #[error("message {position} of the chat call cannot be read")]
    Message {
        /// Which message, counted from 0.
        position: usize,
        /// What is wrong with it.
        source: MessageError,
    },
}

impl CallError {
    /// Of a parser's error only the place: its text may quote what was found.
    #[allow(clippy::needless_pass_by_value)] // As `map_err` hands it over.
    pub(super) fn body(error: serde_json::Error) -> Self {
        Self::Body { line: error.line(), column: error.column() }
    }
}

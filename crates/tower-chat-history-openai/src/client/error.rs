//! The error for chat calls whose body cannot be used.

use tower_chat_history::store::MessageError;

/// The body of a chat call cannot be used. Nothing was sent.
///
/// The caller of a client gets the error in [`OpenAIError::Boxed`](async_openai::error::OpenAIError::Boxed), and
/// downcasts it. The error of a header is [`HeaderError`](tower_chat_history::error::HeaderError), and the error of a
/// call without a conversation is [`MissingConversation`](tower_chat_history::MissingConversation).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The body is a stream, which cannot be sent after it was read.
    #[error("the chat call's body is a stream, but the history needs the whole body")]
    StreamedBody,
    /// The body is not a JSON object with one list of messages.
    #[error("the chat call's body is not a JSON object with one list of messages (line {line}, column {column})")]
    Body {
        /// The line of the first fault, counted from 1; 0 if it is not known.
        line: usize,
        /// The column of the first fault, counted from 1; 0 if it is not known.
        column: usize,
    },
    /// One of the messages is not a chat message.
    #[error("message {position} of the chat call cannot be read: {source}")]
    Message {
        /// The index of the message, counted from 0.
        position: usize,
        /// The cause.
        source: MessageError,
    },
}

impl CallError {
    /// Converts a parser's error. Only its position is kept, because its text may quote the body.
    #[allow(clippy::needless_pass_by_value)] // `map_err` passes a value.
    pub(super) fn body(error: serde_json::Error) -> Self {
        Self::Body { line: error.line(), column: error.column() }
    }
}

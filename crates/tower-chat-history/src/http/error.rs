//! The error for calls whose body cannot be used.

use super::splice::SpliceError;
use crate::{error::BoxError, store::MessageError};

/// The body of a call cannot be used. Neither the store nor the model was called.
///
/// The error of a header is [`HeaderError`](crate::error::HeaderError), and the error of a call without a
/// conversation is [`MissingConversation`](crate::MissingConversation).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The body is a stream of a client that builds each request anew, which cannot be sent after it was read.
    #[error("the call's body is a stream, but the history needs the whole body")]
    StreamedBody,
    /// The body is larger than the [limit](crate::http::HttpLimits::request).
    #[error("the call's body is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The body could not be read to its end. The source is the error of the body, for example that of a client that
    /// left, or of a limit for bodies.
    #[error("the call's body broke off")]
    Read(#[source] BoxError),
    /// The body has a `content-encoding`, so its messages cannot be read.
    #[error("the call's body has the content encoding {coding}, but the history needs plain JSON")]
    Encoded {
        /// The name of the first coding, in lowercase: `gzip`, `deflate`, `br`, `zstd`, `compress`, `x-gzip`,
        /// `x-compress`, or `other`.
        coding: &'static str,
    },
    /// The body is not a JSON object with one list of messages, or a field that the history needs has another type. In
    /// the Responses API, `input` is this list. It may also be a text.
    #[error(
        "the call's body cannot be read at line {line}, column {column}: it is not a JSON object with one list of \
         messages, or a field has another type"
    )]
    Body {
        /// The line of the first fault, counted from 1; 0 if it is not known.
        line: usize,
        /// The column of the first fault, counted from 1; 0 if it is not known.
        column: usize,
    },
    /// One of the messages is not a message of the API. Items of the Responses API are messages, too.
    #[error("message {position} of the call cannot be read: {source}")]
    Message {
        /// The index of the message, counted from 0.
        position: usize,
        /// The cause.
        source: MessageError,
    },
    /// The provider keeps the conversation of the call, so the history cannot be added to it. See
    /// [`OnServerState`](crate::http::OnServerState).
    #[error("the call's `{field}` names a conversation that the provider keeps, so it cannot have another history")]
    ServerState {
        /// The field of the body.
        field: &'static str,
    },
    /// The wire found a place in the body that the body does not have.
    #[error(transparent)]
    Splice(#[from] SpliceError),
}

impl CallError {
    /// Converts a JSON parser's error. Only its position is kept, because its text may quote the body.
    #[allow(clippy::needless_pass_by_value)] // `map_err` passes a value.
    #[must_use]
    pub fn body(error: serde_json::Error) -> Self {
        Self::Body { line: error.line(), column: error.column() }
    }

    /// Returns the error for a body that does not have the list of messages. Its place is the end of the body.
    pub(crate) fn no_list(body: &str) -> Self {
        Self::body_at(body, body.trim_end().len())
    }

    /// Returns the text of a body.
    pub(crate) fn text(body: &[u8]) -> Result<&str, Self> {
        std::str::from_utf8(body).map_err(|error| {
            let valid = body.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok());
            valid.map_or(Self::Body { line: 0, column: 0 }, |valid| Self::body_at(valid, valid.len()))
        })
    }

    /// Returns the error for a fault at this place of the body.
    pub(crate) fn body_at(body: &str, offset: usize) -> Self {
        let before = body.get(..offset).unwrap_or(body);
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        Self::Body { line: 1 + before.bytes().filter(|byte| *byte == b'\n').count(), column: 1 + before.len() - line }
    }
}

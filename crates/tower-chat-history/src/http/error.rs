//! The error for calls whose body cannot be used, and the errors of the layer as they are shown to senders of requests.

use std::{error::Error, ops::Range, time::Duration};

use http::{Response, StatusCode};
use http_body_util::LengthLimitError;

use super::body::HistoryBody;
use crate::{
    error::{
        BoxError, DialectPlace, HeaderError, HistoryError, InputError, MissingConversation, OtherDialect, Unsaved,
    },
    store::MessageError,
};

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
    /// A place in a body is outside of the body, or overlaps another place. The [`Wire`](crate::http::Wire) that found
    /// it has an error.
    #[error(
        "a place that the wire found in the call's body is outside of it, or overlaps another place: bytes {} to {} of \
         {length}",
        place.start, place.end
    )]
    Splice {
        /// The place, in bytes. If it overlaps another place, it is the later one.
        place: Range<usize>,
        /// The length of the body, in bytes.
        length: usize,
    },
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

/// An error of the layer, as it may be shown to the sender of a request: a status, a constant code and a text.
///
/// The text of an error that the sender can correct says what is wrong, by positions and sizes. The text of any other
/// error is constant, because its cause may name parts of the program. No text contains text of messages, or ids of
/// conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// A short constant name of the error.
    pub code: &'static str,
    /// The text for the sender.
    pub text: String,
    /// The time after which the same request can succeed, if it is known. [`error_response`](crate::http::error_response)
    /// sends it as the header `Retry-After`, in seconds.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns the refusal for an error. [`error_response`](crate::http::error_response) has the table of statuses.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(refusal) = of_one(error) {
                return refusal;
            }
            next = error.source();
        }
        internal(StatusCode::BAD_GATEWAY, "upstream", "the model could not be called")
    }
}

/// Returns the refusal for an error of the layer itself.
fn of_one(error: &(dyn Error + 'static)) -> Option<Refusal> {
    if let Some(error) = error.downcast_ref::<HistoryError>() {
        return Some(of_history(error));
    }
    if let Some(error) = error.downcast_ref::<CallError>() {
        return Some(of_call(error));
    }
    if error.is::<HeaderError>() {
        return Some(of_sender(StatusCode::BAD_REQUEST, "header", error));
    }
    if error.is::<MissingConversation>() {
        let text = "the request names no conversation";
        return Some(internal(StatusCode::BAD_REQUEST, "missing_conversation", text));
    }
    if error.is::<Unsaved<Response<HistoryBody>>>() {
        let text = "the model answered, but the exchange was not saved";
        return Some(internal(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", text));
    }
    None
}

fn of_call(error: &CallError) -> Refusal {
    match error {
        CallError::TooLarge { .. } => of_sender(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", error),
        CallError::Read(source) if is_limit(&**source) => {
            of_sender(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", error)
        }
        CallError::Encoded { .. } => of_sender(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding", error),
        CallError::Read(_) | CallError::StreamedBody | CallError::Body { .. } | CallError::Message { .. } => {
            of_sender(StatusCode::BAD_REQUEST, "body", error)
        }
        CallError::ServerState { .. } => of_sender(StatusCode::BAD_REQUEST, "server_state", error),
        CallError::Splice { .. } => {
            internal(StatusCode::INTERNAL_SERVER_ERROR, "wire", "the request could not be changed")
        }
    }
}

fn of_history(error: &HistoryError) -> Refusal {
    let code = error.kind();
    let load = "the conversation's history could not be loaded";
    match error {
        HistoryError::Input(InputError::TurnOpen { .. })
        | HistoryError::Transcript(_)
        | HistoryError::OtherDialect(OtherDialect {
            place: DialectPlace::Stored(_) | DialectPlace::OpenTurn(_), ..
        })
        | HistoryError::AlreadyRecorded(_) => of_sender(StatusCode::CONFLICT, code, error),
        HistoryError::Input(_) => of_sender(StatusCode::BAD_REQUEST, code, error),
        HistoryError::DoesNotFit(_) => of_sender(StatusCode::PAYLOAD_TOO_LARGE, code, error),
        HistoryError::Limit(exceeded) => {
            let status = StatusCode::from_u16(exceeded.http_status()).unwrap_or(StatusCode::FORBIDDEN);
            Refusal { retry_after: exceeded.retry_after, ..of_sender(status, code, error) }
        }
        HistoryError::QueueFull { .. } => of_sender(StatusCode::TOO_MANY_REQUESTS, code, error),
        HistoryError::QueueTimeout(_) => of_sender(StatusCode::SERVICE_UNAVAILABLE, code, error),
        HistoryError::Load(error) if error.is_retryable() => internal(StatusCode::SERVICE_UNAVAILABLE, code, load),
        HistoryError::LoadTimeout(_) => internal(StatusCode::GATEWAY_TIMEOUT, code, load),
        HistoryError::Load(_) => internal(StatusCode::INTERNAL_SERVER_ERROR, code, load),
        _ => internal(StatusCode::INTERNAL_SERVER_ERROR, code, "the conversation cannot be continued by this program"),
    }
}

/// Returns `true` if the error of a body is that of a limit for bodies, such as axum's.
fn is_limit(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Returns a refusal with the text of the error, which the sender can correct.
fn of_sender(status: StatusCode, code: &'static str, error: &dyn Error) -> Refusal {
    Refusal { status, code, text: error.to_string(), retry_after: None }
}

/// Returns a refusal with a constant text.
fn internal(status: StatusCode, code: &'static str, text: &str) -> Refusal {
    Refusal { status, code, text: text.to_owned(), retry_after: None }
}

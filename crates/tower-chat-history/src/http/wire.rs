//! The HTTP half of a dialect, and errors in its form.

use std::{error::Error, fmt};

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, RETRY_AFTER},
};

use super::{
    error::{CallError, Refusal},
    splice::Splice,
    sse::Event,
};
use crate::{
    adapt::{FoldReply, RequestMessages},
    call::Reply,
    dialect::Dialect,
    engine::{InputMode, RequestInfo},
    refusal::Remedy,
};

/// The HTTP half of a dialect: how a body contains the messages of a request, and the reply.
///
/// [`ChatWire`](crate::http::ChatWire) is the wire of chat completions. [`Routes`](crate::http::Routes) connects the paths of
/// requests with wires.
pub trait Wire: fmt::Debug + Send + Sync + 'static {
    /// Returns the dialect of the messages.
    fn dialect(&self) -> &'static dyn Dialect;

    /// Returns the provider that a request to this address calls, for spans (`gen_ai.provider.name`).
    fn provider(&self, uri: &Uri) -> &'static str;

    /// Finds the messages in the body of a request. `mode` and `few_shot_messages` decide which of them are head,
    /// transcript and input.
    ///
    /// # Errors
    ///
    /// Returns an error if the body cannot be used.
    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError>;

    /// Finds the reply in the body of a whole response. If the body has none, the result has
    /// [the shape](Reply::unreadable) of the body.
    fn reply(&self, body: &[u8]) -> Reply;

    /// Returns the fold of a stream of events, for a request with this number of choices. The fold returns
    /// [`Flow::Hold`](crate::adapt::Flow::Hold) for the event after which clients stop reading.
    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>>;

    /// Returns the remedy with which a refused call can succeed. `body` is the whole body of a response with an error
    /// status, or the beginning of a stream whose first event is an error. Larger bodies than 1 MiB, encoded ones, and
    /// those that do not end within 10 seconds (or the [idle
    /// timeout](crate::HistoryOptions::stream_idle_timeout), if that is shorter) are passed on and never looked at.
    ///
    /// The default is [`Remedy::of_body`].
    fn remedy(&self, status: StatusCode, body: &[u8]) -> Option<Remedy> {
        Remedy::of_body(Some(status.as_u16()), body)
    }

    /// Returns the JSON of a refusal, in the form of the provider's errors.
    fn refusal(&self, refusal: &Refusal) -> String;
}

/// A body that was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedBody {
    /// The body, which waits for its window.
    pub splice: Splice,
    /// The messages.
    pub messages: RequestMessages,
    /// The number of choices that are requested.
    pub choices: usize,
    /// The other fields that count for a budget or that spans report. Its head is that of the messages.
    pub info: RequestInfo,
}

impl OpenedBody {
    /// Creates a body that was read, with one choice and no other fields.
    #[must_use]
    pub const fn new(splice: Splice, messages: RequestMessages) -> Self {
        Self { splice, messages, choices: 1, info: RequestInfo::new() }
    }
}

/// Returns the response for an error of the layered service: a status, and a JSON body in the form of the provider's
/// errors. A proxy sends it to the sender of the request.
///
/// | error | status |
/// |---|---|
/// | [`MissingConversation`](crate::MissingConversation), [`HeaderError`](crate::error::HeaderError) | 400 |
/// | [`CallError::TooLarge`](crate::http::CallError::TooLarge), [`CallError::Read`](crate::http::CallError::Read) by a [limit](http_body_util::LengthLimitError) of the server | 413 |
/// | [`CallError::Encoded`](crate::http::CallError::Encoded) | 415 |
/// | [`CallError::Splice`](crate::http::CallError::Splice) | 500 |
/// | any other [`CallError`](crate::http::CallError) | 400 |
/// | [`HistoryError::Input`](crate::HistoryError::Input) | 400; for [`TurnOpen`](crate::error::InputError::TurnOpen) 409 |
/// | [`HistoryError::Transcript`](crate::HistoryError::Transcript), [`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded), [`OtherDialect`](crate::HistoryError::OtherDialect) of a stored exchange or an open turn | 409 |
/// | [`HistoryError::DoesNotFit`](crate::HistoryError::DoesNotFit) | 413 |
/// | [`HistoryError::Limit`](crate::HistoryError::Limit) of a [rate](crate::limits::LimitKind::CallsPerMinute) | 429 with `Retry-After` |
/// | the same of a message or an input | 413 |
/// | the same of another limit, or of a rate of 0 | 403 |
/// | [`HistoryError::Load`](crate::HistoryError::Load) | 503 if [`is_retryable`](crate::StoreError::is_retryable), otherwise 500 |
/// | [`HistoryError::LoadTimeout`](crate::HistoryError::LoadTimeout) | 504 |
/// | [`HistoryError::QueueFull`](crate::HistoryError::QueueFull) | 429 |
/// | [`HistoryError::QueueTimeout`](crate::HistoryError::QueueTimeout) | 503 |
/// | any other [`HistoryError`](crate::HistoryError), [`Unsaved`](crate::Unsaved) | 500 |
/// | any other error, which is one of the inner service | 502 |
///
/// The errors may be wrapped in those of other layers. The body has no text of messages and no ids of conversations. It
/// has no text of the inner service's error either. Two of the errors contain a reply, which this function drops. To
/// send it nevertheless, look for these errors first:
///
/// - `AlreadyRecorded` has the stored exchange. For chat completions,
///   [`to_json_body`](crate::adapt::to_json_body) makes a response of it.
/// - `Unsaved<Response<HistoryBody>>` has the response. With
///   [`OnSaveFailure::Report`](crate::policy::OnSaveFailure::Report), the service returns the response
///   itself.
///
/// ```
/// use http::StatusCode;
/// use tower_chat_history::MissingConversation;
/// use tower_chat_history::http::{ChatWire, error_response};
///
/// let response = error_response(&MissingConversation, &ChatWire::new());
/// assert_eq!(response.status(), StatusCode::BAD_REQUEST);
/// let body = std::str::from_utf8(response.body())?;
/// assert!(body.contains(r#""code":"missing_conversation""#));
/// # Ok::<(), std::str::Utf8Error>(())
/// ```
#[must_use]
pub fn error_response(error: &(dyn Error + 'static), wire: &dyn Wire) -> Response<Bytes> {
    let refusal = Refusal::of(error);
    let mut response = Response::new(Bytes::from(wire.refusal(&refusal)));
    *response.status_mut() = refusal.status;
    if let Some(after) = refusal.retry_after {
        // In whole seconds, rounded up: a client that comes too early would be refused again.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(error: &str) -> Option<Remedy> {
        Remedy::of_body(Some(400), format!(r#"{{"error":{error}}}"#).as_bytes())
    }

    #[test]
    fn refusals_of_encrypted_content_and_lost_items_have_a_remedy() {
        for error in [
            r#"{"message":"The encrypted content gAAA...DQ== could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}"#,
            r#"{"code":"invalid_encrypted_content"}"#,
            r#"{"message":"Item with id 'rs_1' not found.","type":"invalid_request_error","param":"input"}"#,
            r#"{"message":"Item with id 'fc_1' not found. Items are not persisted when `store` is set to false.","code":null}"#,
            r#"{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}"#,
            r#"{"type":"invalid_request_error","message":"messages.23.content.2: Invalid `data` in `redacted_thinking` block"}"#,
            r#"{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."}"#,
        ] {
            assert_eq!(remedy(error), Some(Remedy::WithoutEncrypted), "{error}");
        }
    }

    #[test]
    fn other_refusals_have_no_remedy() {
        for error in [
            "null",
            "{}",
            r#""invalid_encrypted_content""#,
            r#"{"message":"invalid_encrypted_content"}"#,
            r#"{"code":"invalid_value","message":"Invalid 'input[1].id': 'x'."}"#,
            r#"{"code":"previous_response_not_found","message":"Previous response with id 'resp_1' not found."}"#,
            r#"{"message":"Item with id 'x' of type 'reasoning' was provided without its required following item."}"#,
            r#"{"message":"Did the Item with id 'x' not found."}"#,
            r#"{"message":"Item with id 'x"}"#,
            r#"{"message":"messages.0.content.0.redacted_thinking.data: Field required"}"#,
            r#"{"message":"The text: Invalid `signature` in `thinking` block"}"#,
        ] {
            assert_eq!(remedy(error), None, "{error}");
        }
        for body in [&b""[..], b"<html>", b"[]", b"{\"error\":", b"\xff"] {
            assert_eq!(Remedy::of_body(Some(400), body), None);
        }
    }
}

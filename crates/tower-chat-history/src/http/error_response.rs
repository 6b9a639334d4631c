//! Errors of the layer as responses.

use std::error::Error;

use bytes::Bytes;
use http::{
    HeaderValue, Response,
    header::{CONTENT_TYPE, RETRY_AFTER},
};

use super::{refusal::Refusal, wire::Wire};

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

//! The status and the text of an error of the layer.

use std::{error::Error, time::Duration};

use http::{Response, StatusCode};
use http_body_util::LengthLimitError;

use super::{body::HistoryBody, error::CallError};
use crate::error::{DialectPlace, HeaderError, HistoryError, InputError, MissingConversation, OtherDialect, Unsaved};

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
    let of_sender = |status, code| Refusal { status, code, text: error.to_string(), retry_after: None };
    if let Some(error) = error.downcast_ref::<CallError>() {
        return Some(match error {
            CallError::TooLarge { .. } => of_sender(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            CallError::Read(source) if is_limit(&**source) => {
                of_sender(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large")
            }
            CallError::Encoded { .. } => of_sender(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding"),
            CallError::Read(_) | CallError::StreamedBody | CallError::Body { .. } | CallError::Message { .. } => {
                of_sender(StatusCode::BAD_REQUEST, "body")
            }
            CallError::ServerState { .. } => of_sender(StatusCode::BAD_REQUEST, "server_state"),
            CallError::Splice(_) => {
                internal(StatusCode::INTERNAL_SERVER_ERROR, "wire", "the request could not be changed")
            }
        });
    }
    if error.is::<HeaderError>() {
        return Some(of_sender(StatusCode::BAD_REQUEST, "header"));
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

fn of_history(error: &HistoryError) -> Refusal {
    let of_sender = |status| Refusal { status, code: error.kind(), text: error.to_string(), retry_after: None };
    let load = "the conversation's history could not be loaded";
    let internal = |status, text| internal(status, error.kind(), text);
    match error {
        HistoryError::Input(InputError::TurnOpen { .. })
        | HistoryError::Transcript(_)
        | HistoryError::OtherDialect(OtherDialect {
            place: DialectPlace::Stored(_) | DialectPlace::OpenTurn(_), ..
        })
        | HistoryError::AlreadyRecorded(_) => of_sender(StatusCode::CONFLICT),
        HistoryError::Input(_) => of_sender(StatusCode::BAD_REQUEST),
        HistoryError::DoesNotFit(_) => of_sender(StatusCode::PAYLOAD_TOO_LARGE),
        HistoryError::Limit(exceeded) => {
            let status = StatusCode::from_u16(exceeded.http_status()).unwrap_or(StatusCode::FORBIDDEN);
            Refusal { retry_after: exceeded.retry_after, ..of_sender(status) }
        }
        HistoryError::QueueFull { .. } => of_sender(StatusCode::TOO_MANY_REQUESTS),
        HistoryError::QueueTimeout(_) => of_sender(StatusCode::SERVICE_UNAVAILABLE),
        HistoryError::Load(error) if error.is_retryable() => internal(StatusCode::SERVICE_UNAVAILABLE, load),
        HistoryError::LoadTimeout(_) => internal(StatusCode::GATEWAY_TIMEOUT, load),
        HistoryError::Load(_) => internal(StatusCode::INTERNAL_SERVER_ERROR, load),
        _ => internal(StatusCode::INTERNAL_SERVER_ERROR, "the conversation cannot be continued by this program"),
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

/// Returns a refusal with a constant text.
fn internal(status: StatusCode, code: &'static str, text: &str) -> Refusal {
    Refusal { status, code, text: text.to_owned(), retry_after: None }
}

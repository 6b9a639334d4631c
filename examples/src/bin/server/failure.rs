//! Conversion of errors into HTTP responses.

use std::time::Duration;

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tower_chat_history::{
    BoxError, HistoryError, StoreError,
    store::{ConversationIdError, ExchangeIdError},
};

/// An error for the client of this server.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    message: String,
    /// The time after which the call can succeed, if a rate was reached.
    retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), retry_after: None }
    }

    /// Creates the failure of a store. It has only the error's kind: the error's text contains its causes, which
    /// clients should not see.
    fn store(error: &StoreError) -> Self {
        let message = format!("the conversation's store failed: {}", error.kind());
        Self { status: StatusCode::SERVICE_UNAVAILABLE, message, retry_after: None }
    }
}

impl From<ConversationIdError> for Failure {
    fn from(error: ConversationIdError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<ExchangeIdError> for Failure {
    fn from(error: ExchangeIdError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::store(&error)
    }
}

impl From<BoxError> for Failure {
    fn from(error: BoxError) -> Self {
        let mut retry_after = None;
        let status = match error.downcast_ref::<HistoryError>() {
            Some(HistoryError::Load(error)) => return Self::store(error),
            Some(HistoryError::Input(_)) => StatusCode::BAD_REQUEST,
            Some(HistoryError::Limit(exceeded)) => {
                retry_after = exceeded.retry_after;
                StatusCode::from_u16(exceeded.http_status()).unwrap_or(StatusCode::FORBIDDEN)
            }
            Some(HistoryError::QueueFull { .. } | HistoryError::QueueTimeout(_)) => StatusCode::TOO_MANY_REQUESTS,
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            // The model failed.
            None => StatusCode::BAD_GATEWAY,
        };
        Self { status, message: error.to_string(), retry_after }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.message }))).into_response();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

//! Decoding JSON into async-openai's types, with the errors of its client.

use async_openai::error::{ApiErrorResponse, OpenAIError, StreamError, WrappedError};
use serde::de::DeserializeOwned;

use crate::reply::{ApiFailure, NoReply};

pub(super) fn decode<T: DeserializeOwned>(json: String) -> Result<T, OpenAIError> {
    serde_json::from_str(&json).map_err(|error| OpenAIError::JSONDeserialize(error, json))
}

pub(super) fn aborted() -> OpenAIError {
    let reason = "the mock aborted the connection".to_owned();
    OpenAIError::StreamError(Box::new(StreamError::EventStream(reason)))
}

/// Returns the error of a call without a reply.
///
/// # Panics
///
/// Panics if the test asked for a panic.
pub(super) fn no_reply(reason: NoReply) -> OpenAIError {
    match reason {
        NoReply::Failure(failure) => api_error(&failure),
        NoReply::Aborted => aborted(),
        NoReply::Panic(message) => panic!("{message}"),
    }
}

fn api_error(failure: &ApiFailure) -> OpenAIError {
    let body = failure.to_json().to_string();
    let Ok(status_code) = failure.status().try_into() else {
        return OpenAIError::InvalidArgument(format!("{} is not an HTTP status", failure.status()));
    };
    let wrapped = match decode::<WrappedError>(body.clone()) {
        Ok(wrapped) => wrapped,
        Err(error) => return error,
    };
    let mut api_error = wrapped.error;
    if failure.status() >= 500 {
        // The client does not parse the body of a server error: the whole body is the message.
        api_error.message = body;
        (api_error.r#type, api_error.param, api_error.code) = (None, None, None);
    }
    OpenAIError::ApiError(ApiErrorResponse { status_code, api_error })
}

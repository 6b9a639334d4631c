//! The conversion of responses between the HTTP client's type and that of the HTTP layer.

use async_openai::error::OpenAIError;
use reqwest::{Body, Response, ResponseBuilderExt as _};
use tower_chat_history::{BoxError, http::HistoryBody};

/// Converts a response. Its address is kept in the extensions.
pub(super) fn to_http(response: Response) -> http::Response<HistoryBody> {
    let addressed = http::Response::builder().url(response.url().clone()).body(());
    let mut response = http::Response::<Body>::from(response).map(HistoryBody::new);
    // The builder cannot fail with only a URL. If it did, only the URL would be missing.
    if let Ok(addressed) = addressed {
        response.extensions_mut().extend(addressed.into_parts().0.extensions);
    }
    response
}

/// Converts a response that the HTTP layer has read.
pub(super) fn from_http(response: http::Response<HistoryBody>) -> Response {
    response.map(Body::wrap).into()
}

/// Converts the error of a body that broke off to the client's error type.
pub(super) fn client_error(error: BoxError) -> BoxError {
    error.downcast().map_or_else(|other| other, |error| OpenAIError::Reqwest(*error).into())
}

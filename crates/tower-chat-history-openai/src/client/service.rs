//! Conversion of the layer's errors to the client's.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::Response;
use tower_chat_history::BoxError;
use tower_service::Service;

/// Converts a boxed error to async-openai's error type. If the box contains an [`OpenAIError`], that error is returned.
/// Any other error becomes [`OpenAIError::Boxed`], which can be downcast: to
/// [`HistoryError`](tower_chat_history::HistoryError), [`Unsaved<reqwest::Response>`](tower_chat_history::Unsaved),
/// [`CallError`](super::CallError), or the error of another layer.
///
/// In a stack that you build yourself, use it outermost: `ServiceBuilder::new().map_err(openai_error).layer(..)`.
#[must_use]
pub fn openai_error(error: BoxError) -> OpenAIError {
    match error.downcast::<OpenAIError>() {
        Ok(error) => *error,
        Err(other) => OpenAIError::Boxed(other),
    }
}

/// A service whose errors are [converted](openai_error) to async-openai's error type.
#[derive(Clone)]
pub(super) struct Unboxed<S>(pub(super) S);

impl<S> Service<HttpRequestFactory> for Unboxed<S>
where
    S: Service<HttpRequestFactory, Response = Response, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = OpenAIError;
    type Future = UnboxedFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(openai_error)
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        UnboxedFuture(self.0.call(request).map(|answer| answer.map_err(openai_error)).boxed())
    }
}

pub(super) struct UnboxedFuture(BoxFuture<'static, Result<Response, OpenAIError>>);

impl Future for UnboxedFuture {
    type Output = Result<Response, OpenAIError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

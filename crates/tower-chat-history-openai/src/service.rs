//! An async-openai client as a tower service.

use std::{
    fmt,
    task::{Context, Poll},
};

#[cfg(feature = "otel")]
use async_openai::traits::RequestOptionsBuilder as _;
use async_openai::{
    Chat, Client,
    config::Config,
    error::OpenAIError,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use futures_util::future::{self, BoxFuture};
use tower_service::Service;

use crate::adapter::{RequestTooDeep, check_depth};

/// A service that calls `client.chat().create(..)`: one request, one response.
///
/// The client itself retries failed requests (status 429 and server errors, with backoff). One call of this service
/// includes these retries.
///
/// A request with a schema of more than [128 levels](tower_chat_history::adapt::nested::MAX_LEVELS) of lists and objects
/// is refused with [`OpenAIError::InvalidArgument`].
///
/// With the feature `otel`, the request's headers contain the context of the current span, written by the program's
/// [propagator](tower_chat_history::telemetry). The model's call is then part of the turn's trace.
#[derive(Clone)]
pub struct ChatService<C: Config>(Client<C>);

/// A service that calls `client.chat().create_stream(..)`: one request, a stream of chunks.
///
/// Providers report the usage of a stream only on request (`stream_options.include_usage`). Without it, no usage is
/// recorded.
///
/// As in [`ChatService`], schemas with too many levels are refused, and the feature `otel` adds headers.
#[derive(Clone)]
pub struct ChatStreamService<C: Config>(Client<C>);

impl<C: Config> ChatService<C> {
    /// Creates a service that uses this client.
    pub const fn new(client: Client<C>) -> Self {
        Self(client)
    }
}

impl<C: Config> ChatStreamService<C> {
    /// Creates a service that uses this client.
    pub const fn new(client: Client<C>) -> Self {
        Self(client)
    }
}

impl<C: Config + Clone + 'static> Service<CreateChatCompletionRequest> for ChatService<C> {
    type Response = CreateChatCompletionResponse;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Self::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        let mut request = match check_depth(request) {
            Ok(request) => request,
            Err(error) => return refused(error),
        };
        // The client checks this field only if its feature `byot` is disabled. Any crate of a build can enable it.
        request.stream = None;
        let client = self.0.clone();
        Box::pin(async move { chat(&client).create(*request).await })
    }
}

impl<C: Config + Clone + 'static> Service<CreateChatCompletionRequest> for ChatStreamService<C> {
    type Response = ChatCompletionResponseStream;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Self::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        let mut request = match check_depth(request) {
            Ok(request) => request,
            Err(error) => return refused(error),
        };
        request.stream = Some(true);
        let client = self.0.clone();
        Box::pin(async move { chat(&client).create_stream(*request).await })
    }
}

/// Returns the future of a call that is refused, because serializing its request could overflow the stack.
fn refused<R: Send + 'static>(error: RequestTooDeep) -> BoxFuture<'static, Result<R, OpenAIError>> {
    Box::pin(future::ready(Err(OpenAIError::InvalidArgument(error.to_string()))))
}

/// Returns the client's chat calls, with the current trace context in their headers.
#[cfg(feature = "otel")]
fn chat<C: Config>(client: &Client<C>) -> Chat<'_, C> {
    let mut headers = reqwest::header::HeaderMap::new();
    tower_chat_history::telemetry::inject_headers(&mut headers);
    client.chat().headers(headers)
}

#[cfg(not(feature = "otel"))]
fn chat<C: Config>(client: &Client<C>) -> Chat<'_, C> {
    client.chat()
}

// The `Debug` of the client would show its headers.
impl<C: Config> fmt::Debug for ChatService<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatService").finish_non_exhaustive()
    }
}

impl<C: Config> fmt::Debug for ChatStreamService<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatStreamService").finish_non_exhaustive()
    }
}

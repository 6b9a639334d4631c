//! The adapter for the HTTP requests of an async-openai client.

use std::{borrow::Cow, error::Error};

use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use http::Uri;
use reqwest::{Body, Response};
use tower_chat_history::{
    BoxError,
    adapt::{AdaptRequest, CallFacts, CallScope, OpenRequest, Read, ReadResponse},
    engine::InputMode,
    http::{FromHeaders, HttpLimits, Routes, parts},
};

use super::{CallError, HttpDraft, OnServerState, request, response};
use crate::{counter, error_type::error_type};

/// Adapts the HTTP requests of an async-openai client. See the [module docs](crate::client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenAiHttp {
    input_mode: InputMode,
    headers: FromHeaders,
    provider: Option<&'static str>,
    on_server_state: OnServerState,
}

impl OpenAiHttp {
    /// Creates the adapter.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            input_mode: InputMode::Transcript,
            headers: FromHeaders::new(),
            provider: None,
            on_server_state: OnServerState::Fail,
        }
    }

    /// Sets which messages of a request are input. The default is [`InputMode::Transcript`].
    #[must_use]
    pub const fn input_mode(mut self, mode: InputMode) -> Self {
        self.input_mode = mode;
        self
    }

    /// Sets the number of few-shot messages after the leading system and developer messages. They are part of the head:
    /// sent first, and neither compared nor stored. The default is 0. The header
    /// [`FEW_SHOT_MESSAGES`](super::FEW_SHOT_MESSAGES) overrides it for one call.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.headers = self.headers.few_shot_messages(messages);
        self
    }

    /// Sets the policy for calls whose conversation the provider keeps, such as those of `responses()` with
    /// `previous_response_id`. The default is [`OnServerState::Fail`].
    #[must_use]
    pub const fn on_server_state(mut self, policy: OnServerState) -> Self {
        self.on_server_state = policy;
        self
    }

    /// Sets the provider that serves the model, as a value of OpenTelemetry's attribute `gen_ai.provider.name`:
    /// `groq`, `mistral_ai`, `deepseek`, `gcp.gemini`, `openrouter`. Spans have it. It is also the provider of the
    /// [origin](tower_chat_history::HistoryOptions::origin) if the options name none.
    ///
    /// By default, the origin's provider is unknown, and spans have `azure.ai.openai` for Azure's addresses and
    /// `openai` for all others.
    #[must_use]
    pub const fn provider(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }
}

impl Default for OpenAiHttp {
    fn default() -> Self {
        Self::new()
    }
}

impl AdaptRequest<HttpRequestFactory> for OpenAiHttp {
    type Request = HttpRequestFactory;
    type Draft = HttpDraft;

    async fn open(&self, factory: HttpRequestFactory) -> Result<OpenRequest<HttpDraft, HttpRequestFactory>, BoxError> {
        let first = factory.build().await?;
        // An address that this type cannot represent cannot be sent either.
        let uri = Uri::try_from(first.url().as_str()).unwrap_or_default();
        let Some(route) = Routes::new().route_of(first.method(), &uri) else {
            if !parts::is_stateless(first.headers()) {
                parts::warn_without_memory(first.method(), uri.path());
            }
            return Ok(OpenRequest::PassThrough(request::outgoing(factory, Some(first), None)));
        };
        let CallScope::Conversation(id, options) = self.headers.scope(first.headers())? else {
            return Ok(OpenRequest::PassThrough(request::outgoing(factory, Some(first), None)));
        };
        let bytes = first.body().and_then(Body::as_bytes).ok_or(CallError::StreamedBody)?;
        let bytes = Bytes::copy_from_slice(bytes);
        let opened = parts::open_body(route, id, options, self.input_mode, bytes).await;
        if matches!(opened, Err(CallError::ServerState { .. })) && self.on_server_state == OnServerState::PassThrough {
            return Ok(OpenRequest::PassThrough(request::outgoing(factory, Some(first), None)));
        }
        let (mut turn, body) = opened?;
        turn.counter = counter::for_model(turn.request.model.as_deref().unwrap_or_default());
        turn.request.provider = Some(self.provider.unwrap_or_else(|| route.wire().provider(&uri)));
        turn.request.origin.provider = self.provider.map(str::to_owned);
        Ok(OpenRequest::Turn(turn, HttpDraft { factory, first: Some(first), body }))
    }
}

impl ReadResponse<Response> for OpenAiHttp {
    type Response = Response;

    fn pass(&self, response: Response) -> Response {
        response
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Reads the reply of a successful response. With any other status, the turn has failed, and the response is
    /// returned to the client, which reads the error from it.
    async fn read(&self, response: Response, asked: CallFacts) -> Result<Read<Response>, BoxError> {
        let read = parts::read_response(HttpLimits::new(), response::to_http(response), asked).await;
        Ok(read.map_err(response::client_error)?.map(response::from_http))
    }
}

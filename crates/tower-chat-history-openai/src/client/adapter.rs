//! The adapter for the HTTP requests of an async-openai client.

use std::{borrow::Cow, error::Error};

use async_openai::middleware::HttpRequestFactory;
use reqwest::{Body, Response};
use tower_chat_history::{
    BoxError, TurnInput,
    adapt::{AdaptRequest, Asked, CallScope, Opened, Read, ReadResponse},
    engine::InputMode,
};

use super::{
    CallError, HttpDraft,
    body::{ChatBody, ReadBody},
    headers, request, response,
};
use crate::{counter, error_type::error_type};

/// Adapts the HTTP requests of an async-openai client. See the [module docs](crate::client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenAiHttp {
    input_mode: InputMode,
    few_shot_messages: usize,
    provider: Option<&'static str>,
}

impl OpenAiHttp {
    /// Creates the adapter.
    #[must_use]
    pub const fn new() -> Self {
        Self { input_mode: InputMode::Transcript, few_shot_messages: 0, provider: None }
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
        self.few_shot_messages = messages;
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

    async fn open(&self, factory: HttpRequestFactory) -> Result<Opened<HttpDraft, HttpRequestFactory>, BoxError> {
        let first = factory.build().await?;
        if !request::is_chat(&first) {
            if !headers::is_stateless(first.headers()) {
                request::warn_without_memory(&first);
            }
            return Ok(Opened::PassThrough(request::outgoing(factory, first, None)));
        }
        let CallScope::Conversation(id, options) = headers::read(first.headers(), self.few_shot_messages)? else {
            return Ok(Opened::PassThrough(request::outgoing(factory, first, None)));
        };
        let bytes = first.body().and_then(Body::as_bytes).ok_or(CallError::StreamedBody)?;
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        let ReadBody { body, messages, choices, info } =
            ChatBody::read(bytes, self.input_mode, options.few_shot_messages)?;
        let mut turn = TurnInput::new(id, messages.input).transcript(messages.transcript).options(options);
        turn.choices = choices;
        turn.counter = counter::for_model(info.model.as_deref().unwrap_or_default());
        turn.request = info;
        turn.request.head = messages.head;
        turn.request.provider = Some(self.provider.unwrap_or_else(|| request::provider(first.url())));
        turn.request.origin.provider = self.provider.map(str::to_owned);
        Ok(Opened::Turn(turn, HttpDraft { factory, first, body }))
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
    async fn read(&self, response: Response, asked: Asked) -> Result<Read<Response>, BoxError> {
        if response.status().is_success() {
            return response::read(response, asked.choices).await;
        }
        let status = response.status().as_str().to_owned();
        Ok(Read::failed(response, status))
    }
}

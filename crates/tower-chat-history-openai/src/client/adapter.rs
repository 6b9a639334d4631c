//! The adapter for the HTTP requests of an async-openai client.

use std::{
    borrow::Cow,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use bytes::Bytes;
use http::Uri;
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use tower_chat_history::{
    BoxError,
    adapt::{AdaptRequest, CallFacts, CallScope, Draft, ModelRequest, OpenedRequest, Prompt, ReadResponse, Reading},
    engine::InputMode,
    http::{CallError, FromHeaders, HistoryBody, HttpLimits, OnServerState, Routes, Splice, parts},
};

use crate::{error_type::error_type, tokens};

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
    /// [`FEW_SHOT_MESSAGES`](tower_chat_history::http::FEW_SHOT_MESSAGES) overrides it for one call.
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

    async fn open(
        &self,
        factory: HttpRequestFactory,
    ) -> Result<OpenedRequest<HttpDraft, HttpRequestFactory>, BoxError> {
        let first = factory.build().await?;
        // An address that this type cannot represent cannot be sent either.
        let uri = Uri::try_from(first.url().as_str()).unwrap_or_default();
        let Some(wire) = Routes::new().find(first.method(), &uri) else {
            if !parts::is_stateless(first.headers()) {
                parts::warn_without_memory(first.method(), uri.path());
            }
            return Ok(OpenedRequest::PassThrough(outgoing(factory, Some(first), None)));
        };

        let CallScope::Conversation(id, options) = self.headers.scope(first.headers())? else {
            return Ok(OpenedRequest::PassThrough(outgoing(factory, Some(first), None)));
        };

        let bytes = first.body().and_then(Body::as_bytes).ok_or(CallError::StreamedBody)?;
        let bytes = Bytes::copy_from_slice(bytes);
        let opened = parts::open_body(wire, id, options, self.input_mode, bytes).await;
        if matches!(opened, Err(CallError::ServerState { .. })) && self.on_server_state == OnServerState::PassThrough {
            return Ok(OpenedRequest::PassThrough(outgoing(factory, Some(first), None)));
        }

        let (mut turn, body) = opened?;
        turn.counter = tokens::counter_for_model(turn.request.model.as_deref().unwrap_or_default());
        turn.request.provider = Some(self.provider.unwrap_or_else(|| wire.provider(&uri)));
        turn.request.origin.provider = self.provider.map(str::to_owned);
        turn.request.host = uri.host().map(str::to_owned);
        Ok(OpenedRequest::Turn(turn, HttpDraft { factory, first: Some(first), body }))
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
    async fn read(&self, response: Response, call: CallFacts) -> Result<Reading<Response>, BoxError> {
        let read = parts::read_response(HttpLimits::new(), to_http(response), call).await;
        Ok(read.map_err(client_error)?.map(from_http))
    }
}

/// A chat call of the client integration that waits for its history.
pub struct HttpDraft {
    factory: HttpRequestFactory,
    /// The request that was built for reading. A repeated call builds another one.
    first: Option<Request>,
    body: Splice,
}

impl Draft for HttpDraft {
    type Request = HttpRequestFactory;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<HttpRequestFactory>, BoxError> {
        // Messages are sent as their JSON, so none is downgraded.
        let body = self.body.with(prompt);
        Ok(ModelRequest::new(outgoing(self.factory, self.first, body), 0))
    }

    fn again(&self) -> Option<Self> {
        Some(Self { factory: self.factory.clone(), first: None, body: self.body.clone() })
    }
}

impl fmt::Debug for HttpDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDraft").finish_non_exhaustive()
    }
}

/// Returns the factory of the requests that are sent: without the headers of the HTTP layer, with the current trace
/// context, and with `body` if it is given.
///
/// `first` is the request that was built for reading, if it is not used yet. The first attempt uses it, because
/// building may read a file. Each further attempt builds a new request, as the client expects.
fn outgoing(factory: HttpRequestFactory, first: Option<Request>, body: Option<Bytes>) -> HttpRequestFactory {
    let first = Arc::new(Mutex::new(first));
    HttpRequestFactory::new(move || {
        let factory = factory.clone();
        let first = Arc::clone(&first);
        let body = body.clone();
        async move {
            let built = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut request = match built {
                Some(request) => request,
                None => factory.build().await?,
            };

            parts::strip_headers(request.headers_mut());
            #[cfg(feature = "otel")]
            tower_chat_history::telemetry::inject_headers(request.headers_mut());
            if let Some(body) = body {
                parts::fit_headers(request.headers_mut(), body.len());
                *request.body_mut() = Some(body.into());
            }
            Ok(request)
        }
    })
}

/// Converts a response. Its address is kept in the extensions.
fn to_http(response: Response) -> http::Response<HistoryBody> {
    let addressed = http::Response::builder().url(response.url().clone()).body(());
    let mut response = http::Response::<Body>::from(response).map(HistoryBody::new);
    // The builder cannot fail with only a URL. If it did, only the URL would be missing.
    if let Ok(addressed) = addressed {
        response.extensions_mut().extend(addressed.into_parts().0.extensions);
    }
    response
}

/// Converts a response that the HTTP layer has read.
fn from_http(response: http::Response<HistoryBody>) -> Response {
    response.map(Body::wrap).into()
}

/// Converts the error of a body that broke off to the client's error type.
fn client_error(error: BoxError) -> BoxError {
    error.downcast().map_or_else(|other| other, |error| OpenAIError::Reqwest(*error).into())
}

//! The adapter for HTTP requests.

use http::{Method, Request, Response, Uri};
use http_body::Body;

use super::{
    body::{HistoryBody, HttpLimits},
    error::CallError,
    headers::{self, FromHeaders},
    request::{HttpDraft, open_body, read_body},
    response::read_response,
    routes::{Routes, warn_without_memory},
    wire::Wire,
};
use crate::{
    adapt::{AdaptRequest, CallFacts, CallScope, ExtractScope, OpenedRequest, ReadResponse, Reading},
    engine::InputMode,
    error::BoxError,
};

/// Adapts HTTP requests and responses for [`ChatHistoryLayer`](crate::ChatHistoryLayer). See the [module's
/// docs](crate::http).
///
/// The layered service takes `http::Request<B>`, with any body `B`. The inner service takes
/// `http::Request<HistoryBody>`, and returns `http::Response<C>`, with any body `C`. The response for the caller is an
/// `http::Response<HistoryBody>`.
///
/// `X` is the [extractor](crate::adapt::extract), which finds the conversation of a request. By default,
/// it reads the [headers](FromHeaders) of this module.
#[derive(Clone, Debug)]
pub struct HttpHistory<X = FromHeaders> {
    extract: X,
    routes: Routes,
    limits: HttpLimits,
    input_mode: InputMode,
    provider: Option<&'static str>,
    on_server_state: OnServerState,
}

/// The policy for a request whose conversation the provider keeps, such as one with `previous_response_id` or
/// `conversation` in the Responses API. The history cannot be added to it, because the model would get it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnServerState {
    /// The call fails with [`CallError::ServerState`](crate::http::CallError::ServerState).
    #[default]
    Fail,
    /// The request and its response pass through. Nothing is loaded or stored.
    PassThrough,
}

impl HttpHistory {
    /// Creates the adapter.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            extract: FromHeaders::new(),
            routes: Routes::new(),
            limits: HttpLimits::new(),
            input_mode: InputMode::Transcript,
            provider: None,
            on_server_state: OnServerState::Fail,
        }
    }

    /// Sets the number of few-shot messages after the leading system and developer messages. They are part of the head:
    /// sent first, and neither compared nor stored. The default is 0. The header
    /// [`FEW_SHOT_MESSAGES`](crate::http::FEW_SHOT_MESSAGES) overrides it for one call.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.extract = self.extract.few_shot_messages(messages);
        self
    }
}

impl Default for HttpHistory {
    fn default() -> Self {
        Self::new()
    }
}

impl<X> HttpHistory<X> {
    /// Sets the extractor. It sees only requests that have a [route](Self::routes). The default is [`FromHeaders`].
    #[must_use]
    pub fn extract_by<Y>(self, extract: Y) -> HttpHistory<Y> {
        let Self { extract: _, routes, limits, input_mode, provider, on_server_state } = self;
        HttpHistory { extract, routes, limits, input_mode, provider, on_server_state }
    }

    /// Sets the requests that have history. The default is [`Routes::new`].
    #[must_use]
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Sets the largest sizes of bodies. The default is [`HttpLimits::new`].
    #[must_use]
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets which messages of a request are input. The default is [`InputMode::Transcript`]: all messages after the
    /// last assistant message.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.input_mode = mode;
        self
    }

    /// Sets the policy for requests whose conversation the provider keeps. The default is [`OnServerState::Fail`].
    #[must_use]
    pub const fn on_server_state(mut self, policy: OnServerState) -> Self {
        self.on_server_state = policy;
        self
    }

    /// Sets the provider that serves the model, as a value of OpenTelemetry's attribute `gen_ai.provider.name`:
    /// `groq`, `mistral_ai`, `deepseek`, `gcp.gemini`, `openrouter`. Spans have it. It is also the provider of the
    /// [origin](crate::HistoryOptions::origin) if the options name none.
    ///
    /// By default, the origin's provider is unknown, and spans have the provider of the [wire](Wire::provider).
    #[must_use]
    pub fn provider(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }

    /// Returns the wire of a request, or `None` if the request has no history.
    #[must_use]
    pub fn wire(&self, method: &Method, uri: &Uri) -> Option<&'static dyn Wire> {
        self.routes.find(method, uri)
    }
}

impl<B, X> AdaptRequest<Request<B>> for HttpHistory<X>
where
    B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    X: ExtractScope<Request<B>, Call = Request<B>> + Sync,
{
    type Request = Request<HistoryBody>;
    type Draft = HttpDraft;

    async fn open(&self, request: Request<B>) -> Result<OpenedRequest<HttpDraft, Self::Request>, BoxError> {
        let Some(wire) = self.routes.find(request.method(), request.uri()) else {
            if !headers::is_stateless(request.headers()) {
                warn_without_memory(request.method(), request.uri().path());
            }
            return Ok(OpenedRequest::PassThrough(passed(request)));
        };

        let (scope, request) = self.extract.extract(request)?;
        let CallScope::Conversation(conversation, options) = scope else {
            return Ok(OpenedRequest::PassThrough(passed(request)));
        };

        let (mut head, body) = request.into_parts();
        let (bytes, mut trailers) = read_body(&head.headers, HistoryBody::new(body), self.limits.request).await?;
        trailers.iter_mut().for_each(headers::strip);

        let opened = open_body(wire, conversation, options, self.input_mode, bytes.clone()).await;
        if matches!(opened, Err(CallError::ServerState { .. })) && self.on_server_state == OnServerState::PassThrough {
            headers::strip(&mut head.headers);
            return Ok(OpenedRequest::PassThrough(Request::from_parts(head, HistoryBody::whole(bytes, trailers))));
        }

        let (mut turn, splice) = opened?;
        turn.request.provider = Some(self.provider.unwrap_or_else(|| wire.provider(&head.uri)));
        turn.request.origin.provider = self.provider.map(str::to_owned);
        turn.request.host = head.uri.host().map(str::to_owned);
        headers::strip(&mut head.headers);
        Ok(OpenedRequest::Turn(turn, HttpDraft::new(head, splice, trailers)))
    }
}

/// Returns a request whose body is not read.
fn passed<B>(mut request: Request<B>) -> Request<HistoryBody>
where
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    headers::strip(request.headers_mut());
    request.map(HistoryBody::new)
}

impl<B, X> ReadResponse<Response<B>> for HttpHistory<X>
where
    B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    X: Sync,
{
    type Response = Response<HistoryBody>;

    fn pass(&self, response: Response<B>) -> Self::Response {
        response.map(HistoryBody::new)
    }

    /// Reads the reply of a successful response. With any other status, the call has failed, and the response is
    /// returned unchanged.
    async fn read(&self, response: Response<B>, asked: CallFacts) -> Result<Reading<Self::Response>, BoxError> {
        read_response(self.limits, response.map(HistoryBody::new), asked).await
    }
}

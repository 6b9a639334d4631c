//! Creating clients with history.

use async_openai::{
    Client,
    config::Config,
    middleware::{ReqwestService, retry::OpenAIRetryLayer},
};
use tower_chat_history::{ChatHistoryLayer, Engine, HistoryOptions, HistoryStore, engine::InputMode};
use tower_layer::Layer as _;

use super::{OnServerState, OpenAiHttp, service::Unboxed};

/// A builder of async-openai clients with history. See the [module docs](super).
///
/// All clients that one builder creates share its engine: the store, the options and the pending saves.
#[derive(Clone, Debug)]
pub struct OpenAiHistory {
    engine: Engine,
    adapter: OpenAiHttp,
    http: Option<reqwest::Client>,
}

impl OpenAiHistory {
    /// Creates a builder of clients that store their history in this store, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore) -> Self {
        Self::from_engine(Engine::new(store))
    }

    /// Creates a builder of clients that store their history in this store, with these options.
    pub fn with_options(store: impl HistoryStore, options: HistoryOptions) -> Self {
        Self::from_engine(Engine::with_options(store, options))
    }

    /// Creates a builder of clients with this engine. Other layers, and code that uses the engine directly, may share
    /// it.
    #[must_use]
    pub const fn from_engine(engine: Engine) -> Self {
        Self { engine, adapter: OpenAiHttp::new(), http: None }
    }

    /// Sets which messages of a request are input. The default is [`InputMode::Transcript`]: all messages after the
    /// last assistant message.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.adapter = self.adapter.input_mode(mode);
        self
    }

    /// Sets the number of few-shot messages after the leading system and developer messages. They are sent first and
    /// never stored. The default is 0. The header [`FEW_SHOT_MESSAGES`](super::FEW_SHOT_MESSAGES) sets it for one call.
    #[must_use]
    pub fn few_shot_messages(mut self, messages: usize) -> Self {
        self.adapter = self.adapter.few_shot_messages(messages);
        self
    }

    /// Sets the policy for calls whose conversation the provider keeps. The default is [`OnServerState::Fail`]. See
    /// [`OpenAiHttp::on_server_state`].
    #[must_use]
    pub fn on_server_state(mut self, policy: OnServerState) -> Self {
        self.adapter = self.adapter.on_server_state(policy);
        self
    }

    /// Sets the name of the model's provider, for spans and for the origin of its reasoning. See
    /// [`OpenAiHttp::provider`].
    #[must_use]
    pub fn provider(mut self, name: &'static str) -> Self {
        self.adapter = self.adapter.provider(name);
        self
    }

    /// Sets the HTTP client that sends the requests. The default is reqwest's default client.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Creates a client with history. Any configuration works, including Azure's.
    ///
    /// The client retries failed requests like every client of async-openai. The history wraps the retries, so all
    /// attempts of a call belong to one turn.
    ///
    /// # Errors of its calls
    ///
    /// The errors of the history are in [`OpenAIError::Boxed`](async_openai::error::OpenAIError::Boxed). Downcast
    /// them to the [types of the layer](tower_chat_history::error), or to [`CallError`](super::CallError).
    ///
    /// A chat call without a conversation fails with
    /// [`MissingConversation`](tower_chat_history::MissingConversation). Set the header
    /// [`CONVERSATION_ID`](super::CONVERSATION_ID), make the call within
    /// [`in_conversation`](tower_chat_history::in_conversation) (which a spawned task does not inherit), or set the
    /// header [`STATELESS`](super::STATELESS) to `true` for a call without history.
    pub fn client<C: Config>(&self, config: C) -> Client<C> {
        let http = self.http.clone().unwrap_or_default();
        let transport = OpenAIRetryLayer::default().layer(ReqwestService::new(http.clone()));
        Client::build(http, config).with_http_service(Unboxed(self.layer().layer(transport)))
    }

    /// Returns the layer, for services that take async-openai's
    /// [`HttpRequestFactory`](async_openai::middleware::HttpRequestFactory) and return a [`reqwest::Response`].
    #[must_use]
    pub fn layer(&self) -> ChatHistoryLayer<OpenAiHttp> {
        ChatHistoryLayer::from_engine(self.engine.clone(), self.adapter.clone())
    }

    /// Returns the engine. [Drain](Engine::drain) it before the runtime shuts down.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

//! Building clients that remember.

use async_openai::{
    Client,
    config::Config,
    middleware::{ReqwestService, retry::OpenAIRetryLayer},
};
use tower_chat_history::{ChatHistoryLayer, ContextBudget, Engine, HistoryOptions, HistoryStore, InputMode};
use tower_layer::Layer as _;

use super::{OpenAiHttp, service::Unboxed};

/// Makes async-openai clients that remember: see the [module docs](super).
///
/// Clients made by one value share its engine: the store, the options and the saves that are in flight.
#[derive(Clone, Debug)]
pub struct OpenAiHistory {
    engine: Engine,
    adapter: OpenAiHttp,
    http: Option<reqwest::Client>,
}

impl OpenAiHistory {
    /// Remembers in that store, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore) -> Self {
        Self::from_engine(Engine::new(store))
    }

    /// Remembers with an engine that may be shared with other layers and with code that uses it directly.
    #[must_use]
    pub const fn from_engine(engine: Engine) -> Self {
        Self { engine, adapter: OpenAiHttp::new(), http: None }
    }

    /// Sets the options: a new engine over the same store, with the same [retention](tower_chat_history::Retention).
    /// Say so before clients and layers are made. A [budget](Self::budget) that was set before stays, unless these
    /// options set one.
    #[must_use]
    pub fn options(mut self, options: HistoryOptions) -> Self {
        self.engine = self.layer().options(options).engine().clone();
        self
    }

    /// Sets how large a prompt may be: a new engine over the same store. Say so before clients and layers are made. The default
    /// is the window of the model that a request names. See [`HistoryOptions::budget`].
    #[must_use]
    pub fn budget(mut self, budget: ContextBudget) -> Self {
        self.engine = self.layer().budget(budget).engine().clone();
        self
    }

    /// What of a request is new. The default is [`InputMode::Transcript`]: what comes after the last assistant message.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.adapter = self.adapter.input_mode(mode);
        self
    }

    /// How many messages behind the leading system and developer messages are few-shot examples: sent first, never stored.
    /// The default is 0. The header [`FEW_SHOT_MESSAGES`](super::FEW_SHOT_MESSAGES) says it for one call.
    #[must_use]
    pub fn few_shot_messages(mut self, messages: usize) -> Self {
        self.adapter = self.adapter.few_shot_messages(messages);
        self
    }

    /// Who serves the model, for spans. The default is what the address tells. See [`OpenAiHttp::provider`].
    #[must_use]
    pub fn provider(mut self, name: &'static str) -> Self {
        self.adapter = self.adapter.provider(name);
        self
    }

    /// The HTTP client that requests are sent with. The default is reqwest's.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    /// A client that remembers. Any configuration will do, Azure's too.
    ///
    /// It retries as a client of async-openai does by itself, inside of history: what is tried again is one turn.
    pub fn client<C: Config>(&self, config: C) -> Client<C> {
        let http = self.http.clone().unwrap_or_default();
        let transport = OpenAIRetryLayer::default().layer(ReqwestService::new(http.clone()));
        Client::build(http, config).with_http_service(Unboxed(self.layer().layer(transport)))
    }

    /// The layer alone, for services that take async-openai's
    /// [`HttpRequestFactory`](async_openai::middleware::HttpRequestFactory) and answer with a [`reqwest::Response`].
    #[must_use]
    pub fn layer(&self) -> ChatHistoryLayer<OpenAiHttp> {
        ChatHistoryLayer::from_engine(self.engine.clone(), self.adapter.clone())
    }

    /// The engine: drain it before the runtime shuts down.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

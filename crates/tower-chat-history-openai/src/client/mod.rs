//! Conversation memory inside an async-openai client.
//!
//! This is the client integration. [`OpenAiHistory`] creates a client with history. Code that calls
//! `client.chat().create(..)` or `create_stream(..)` stays as it is, except that each call names its conversation in a
//! header.
//!
//! ```no_run
//! use async_openai::{
//!     config::OpenAIConfig,
//!     error::OpenAIError,
//!     traits::RequestOptionsBuilder,
//!     types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
//! };
//! use tower_chat_history::MemoryStore;
//! use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), OpenAIError> {
//!     let client = OpenAiHistory::new(MemoryStore::new()).client(OpenAIConfig::new());
//!     for question in ["My name is Nemo.", "What is my name?"] {
//!         let messages = vec![ChatCompletionRequestUserMessage::from(question).into()];
//!         let request = CreateChatCompletionRequest {
//!             model: "gpt-4o-mini".into(),
//!             messages,
//!             ..Default::default()
//!         };
//!         let chat = client.chat().header(CONVERSATION_ID, "acme/user-42")?;
//!         let response = chat.create(request).await?;
//!         let text = response.choices[0].message.content.as_deref();
//!         println!("{}", text.unwrap_or_default());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The value of the header is the `Display` form of a [`ConversationId`](tower_chat_history::ConversationId).
//! Without the header, a call belongs to the conversation of the [running
//! task](tower_chat_history::in_conversation).
//!
//! | header | value | default |
//! |---|---|---|
//! | [`CONVERSATION_ID`] | a conversation id | that of the running task |
//! | [`EXCHANGE_ID`] | an exchange id | a generated one |
//! | [`STATELESS`] | `true`: nothing is loaded or stored | `false` |
//! | [`DONT_STORE`] | `true`: the history is sent, and nothing is stored | `false` |
//! | [`FEW_SHOT_MESSAGES`] | the number of few-shot messages | the client's |
//!
//! Set options with [`OpenAiHistory::with_options`]. Before the runtime ends, call
//! [`Engine::drain`](tower_chat_history::Engine::drain) on [`OpenAiHistory::engine`].
//!
//! # Pages
//!
//! | page | contents |
//! |---|---|
//! | [requests](crate::guide::client_requests) | the stack of services, headers, changes to the body |
//! | [responses](crate::guide::client_responses) | the rules for storing responses, and for passing them on |

mod adapter;

use std::task::{Context, Poll};

use async_openai::{
    Client,
    config::Config,
    error::OpenAIError,
    middleware::{HttpRequestFactory, ReqwestService, retry::OpenAIRetryLayer},
};
use futures_util::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use reqwest::Response;
#[doc(inline)]
pub use tower_chat_history::http::{
    CONVERSATION_ID, CallError, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, OnServerState, STATELESS,
};
use tower_chat_history::{BoxError, ChatHistoryLayer, Engine, HistoryOptions, HistoryStore, engine::InputMode};
use tower_layer::Layer as _;
use tower_service::Service;

pub use self::adapter::{HttpDraft, OpenAiHttp};

/// A builder of async-openai clients with history. See the [module docs](self).
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
    /// never stored. The default is 0. The header [`FEW_SHOT_MESSAGES`] sets it for one call.
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
    /// The errors of the history are in [`OpenAIError::Boxed`]. Downcast
    /// them to the [types of the layer](tower_chat_history::error), or to [`CallError`].
    ///
    /// A chat call without a conversation fails with
    /// [`MissingConversation`](tower_chat_history::MissingConversation). Set the header
    /// [`CONVERSATION_ID`], make the call within
    /// [`in_conversation`](tower_chat_history::in_conversation) (which a spawned task does not inherit), or set the
    /// header [`STATELESS`] to `true` for a call without history.
    pub fn client<C: Config>(&self, config: C) -> Client<C> {
        let http = self.http.clone().unwrap_or_default();
        let transport = OpenAIRetryLayer::default().layer(ReqwestService::new(http.clone()));
        Client::build(http, config).with_http_service(TypedErrors(self.layer().layer(transport)))
    }

    /// Returns the layer, for services that take async-openai's
    /// [`HttpRequestFactory`] and return a [`reqwest::Response`].
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

/// Converts a boxed error to async-openai's error type. If the box contains an [`OpenAIError`], that error is returned.
/// Any other error becomes [`OpenAIError::Boxed`], which can be downcast: to
/// [`HistoryError`](tower_chat_history::HistoryError), [`Unsaved<reqwest::Response>`](tower_chat_history::Unsaved),
/// [`CallError`], or the error of another layer.
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
struct TypedErrors<S>(S);

impl<S> Service<HttpRequestFactory> for TypedErrors<S>
where
    S: Service<HttpRequestFactory, Response = Response, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Response, OpenAIError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(openai_error)
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        self.0.call(request).map_err(openai_error).boxed()
    }
}

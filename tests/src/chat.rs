//! A chat through the typed door.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use async_openai::{
    error::OpenAIError,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionResponse, CreateChatCompletionStreamResponse},
};
use futures_util::{StreamExt as _, future::BoxFuture};
use serde_json::json;
use tokio::sync::oneshot;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryError, HistoryOptions, InConversation, Message, Unsaved,
    error::InputError,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{MockChatStream, MockLlm, Replies};

use crate::Storage;

pub use async_openai::types::chat::CreateChatCompletionRequest as TypedRequest;
pub use tower_chat_history_test::MockChat;

/// What the typed door takes.
pub type Asked = InConversation<TypedRequest>;
/// What the unary door answers.
pub type Response = CreateChatCompletionResponse;
/// What the streaming door answers with.
pub type Chunk = CreateChatCompletionStreamResponse;

/// Which of the two faces of the typed door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `create`.
    Unary,
    /// `create_stream`, read to its end.
    Stream,
}

/// Both faces.
pub const BOTH_DOORS: [Door; 2] = [Door::Unary, Door::Stream];

/// A request with these messages.
pub fn request(messages: impl IntoIterator<Item = Message>) -> TypedRequest {
    let messages: Vec<Message> = messages.into_iter().collect();
    // By way of text: a message is verbatim JSON, which a `Value` is not.
    serde_json::from_str(&serde_json::to_string(&json!({"model": "mock", "messages": messages})).unwrap()).unwrap()
}

/// A user's text in that conversation.
#[must_use]
pub fn asked(id: &ConversationId, text: &str) -> Asked {
    InConversation::new(id.clone(), request([Message::user(text)]))
}

/// The first choice's text in these chunks.
#[must_use]
pub fn said(chunks: &[Chunk]) -> String {
    let first = chunks.iter().flat_map(|chunk| &chunk.choices).filter(|choice| choice.index == 0);
    first.filter_map(|choice| choice.delta.content.as_deref()).collect()
}

/// Reads a stream up to and with its last finish reason, and no further.
pub async fn read_to_finish(stream: &mut ChatCompletionResponseStream) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while !chunks.iter().flat_map(|chunk: &Chunk| &chunk.choices).any(|choice| choice.finish_reason.is_some()) {
        chunks.push(stream.next().await.unwrap().unwrap());
    }
    chunks
}

/// What history kept from the model.
#[must_use]
pub fn kept_back(error: &BoxError) -> &HistoryError {
    error.downcast_ref().unwrap()
}

/// What was wrong with an input.
#[must_use]
pub fn bad_input(error: &BoxError) -> &InputError {
    let HistoryError::Input(input) = kept_back(error) else { panic!("{error}") };
    input
}

/// An answer of the unary door that could not be saved.
#[must_use]
pub fn not_saved(error: BoxError) -> Unsaved<Response> {
    *error.downcast().unwrap()
}

/// The text of a response.
#[must_use]
pub fn answer(response: &Response) -> &str {
    response.choices.first().and_then(|choice| choice.message.content.as_deref()).unwrap_or_default()
}

/// A model with history, over one of the stores.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The model.
    pub llm: MockLlm,
    layer: ChatHistoryLayer<OpenAi>,
    held: Held,
}

type Held = Arc<Mutex<VecDeque<oneshot::Receiver<()>>>>;

impl Chat {
    /// A model that gives these replies, with the default options.
    pub fn new(storage: &Storage, replies: impl Into<Replies>) -> Self {
        Self::with_options(storage, replies, HistoryOptions::new())
    }

    /// A model that gives these replies.
    pub fn with_options(storage: &Storage, replies: impl Into<Replies>, options: HistoryOptions) -> Self {
        let layer = ChatHistoryLayer::with_options(storage.store.clone(), OpenAi::new(), options);
        Self { llm: MockLlm::new(replies), layer, held: Arc::default() }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.layer.engine()
    }

    /// The layer, to be put around another service.
    #[must_use]
    pub fn layer(&self) -> ChatHistoryLayer<OpenAi> {
        self.layer.clone()
    }

    /// Holds back the answer to the next call that reaches the model, until the sender is used or dropped. The call itself
    /// is recorded, and its reply is decided, when it comes.
    #[must_use = "dropping it releases the answer"]
    pub fn hold_reply(&self) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.held.lock().unwrap().push_back(held);
        release
    }

    /// Waits until the model has got that many calls.
    pub async fn reached(&self, calls: usize) {
        while self.llm.requests().len() < calls {
            tokio::task::yield_now().await;
        }
    }

    /// A call at the unary door.
    pub fn unary(&self, call: Asked) -> impl Future<Output = Result<Response, BoxError>> + Send + use<> {
        self.layer.layer(self.gated(self.llm.unary())).oneshot(call)
    }

    /// A call at the streaming door.
    pub fn stream(
        &self,
        call: Asked,
    ) -> impl Future<Output = Result<ChatCompletionResponseStream, BoxError>> + Send + use<> {
        self.layer.layer(self.gated::<MockChatStream>(self.llm.stream())).oneshot(call)
    }

    /// A call at that door: the reply's text, once the response is whole.
    pub async fn call(&self, door: Door, call: Asked) -> Result<String, BoxError> {
        match door {
            Door::Unary => Ok(answer(&self.unary(call).await?).to_owned()),
            Door::Stream => {
                let items: Vec<_> = self.stream(call).await?.collect().await;
                Ok(said(&items.into_iter().collect::<Result<Vec<_>, _>>()?))
            }
        }
    }

    /// Sends a user's text at that door.
    pub async fn ask(&self, door: Door, id: &ConversationId, text: &str) -> Result<String, BoxError> {
        self.call(door, asked(id, text)).await
    }

    fn gated<S>(&self, inner: S) -> Gated<S> {
        Gated { inner, held: Arc::clone(&self.held) }
    }
}

/// A service whose answers are held back on demand: see [`Chat::hold_reply`].
#[derive(Clone)]
pub struct Gated<S> {
    inner: S,
    held: Held,
}

impl<S> Service<TypedRequest> for Gated<S>
where
    S: Service<TypedRequest, Error = OpenAIError>,
    S::Response: Send,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<S::Response, OpenAIError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: TypedRequest) -> Self::Future {
        // Before the call is recorded: whoever waits for that goes on at once, and the next call must not be held instead.
        let held = self.held.lock().unwrap().pop_front();
        let answer = self.inner.call(request);
        Box::pin(async move {
            if let Some(held) = held {
                // Dropping the sender releases it too.
                let _ = held.await;
            }
            answer.await
        })
    }
}

impl<S> fmt::Debug for Gated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated").finish_non_exhaustive()
    }
}

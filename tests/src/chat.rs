//! A chat through the typed integration, and short names for its types.

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

/// The request type of the typed integration.
pub type TypedCall = InConversation<TypedRequest>;
/// The response of a unary call.
pub type Response = CreateChatCompletionResponse;
/// One item of a streamed response.
pub type Chunk = CreateChatCompletionStreamResponse;

/// The two kinds of calls of the typed integration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// `create`.
    Unary,
    /// `create_stream`, read to the end of the stream.
    Stream,
}

/// Both kinds of calls.
pub const BOTH_KINDS: [CallKind; 2] = [CallKind::Unary, CallKind::Stream];

/// Returns a request with these messages.
pub fn request(messages: impl IntoIterator<Item = Message>) -> TypedRequest {
    let messages: Vec<Message> = messages.into_iter().collect();
    // Through text: a message is verbatim JSON, which a `Value` cannot hold.
    serde_json::from_str(&serde_json::to_string(&json!({"model": "mock", "messages": messages})).unwrap()).unwrap()
}

/// Returns a call with one user message in a conversation.
#[must_use]
pub fn user_call(id: &ConversationId, text: &str) -> TypedCall {
    InConversation::new(id.clone(), request([Message::user(text)]))
}

/// Returns the text of choice 0 in these chunks.
#[must_use]
pub fn reply_text(chunks: &[Chunk]) -> String {
    let first = chunks.iter().flat_map(|chunk| &chunk.choices).filter(|choice| choice.index == 0);
    first.filter_map(|choice| choice.delta.content.as_deref()).collect()
}

/// Reads a stream up to the first chunk with a finish reason, and no further.
pub async fn read_to_finish(stream: &mut ChatCompletionResponseStream) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while !chunks.iter().flat_map(|chunk: &Chunk| &chunk.choices).any(|choice| choice.finish_reason.is_some()) {
        chunks.push(stream.next().await.unwrap().unwrap());
    }
    chunks
}

/// Returns the history error for which the model was not called.
#[must_use]
pub fn history_error(error: &BoxError) -> &HistoryError {
    error.downcast_ref().unwrap()
}

/// Returns the error in the input.
#[must_use]
pub fn input_error(error: &BoxError) -> &InputError {
    let HistoryError::Input(input) = history_error(error) else { panic!("{error}") };
    input
}

/// Returns the response of a unary call that could not be saved.
#[must_use]
pub fn unsaved(error: BoxError) -> Unsaved<Response> {
    *error.downcast().unwrap()
}

/// Returns the text of a response.
#[must_use]
pub fn response_text(response: &Response) -> &str {
    response.choices.first().and_then(|choice| choice.message.content.as_deref()).unwrap_or_default()
}

/// A mock model with history in one of the stores.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The mock model.
    pub llm: MockLlm,
    layer: ChatHistoryLayer<OpenAi>,
    held: Held,
}

type Held = Arc<Mutex<VecDeque<oneshot::Receiver<()>>>>;

impl Chat {
    /// Creates a model that gives these replies, with the default options.
    pub fn new(storage: &Storage, replies: impl Into<Replies>) -> Self {
        Self::with_options(storage, replies, HistoryOptions::new())
    }

    /// Creates a model that gives these replies.
    pub fn with_options(storage: &Storage, replies: impl Into<Replies>, options: HistoryOptions) -> Self {
        let layer = ChatHistoryLayer::with_options(storage.store.clone(), OpenAi::new(), options);
        Self { llm: MockLlm::new(replies), layer, held: Arc::default() }
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.layer.engine()
    }

    /// Returns the layer, to wrap another service.
    #[must_use]
    pub fn layer(&self) -> ChatHistoryLayer<OpenAi> {
        self.layer.clone()
    }

    /// Holds the response to the next call that reaches the model, until the sender is used or dropped. The
    /// call is recorded, and its reply is chosen, when the call arrives.
    #[must_use = "dropping it releases the answer"]
    pub fn hold_reply(&self) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.held.lock().unwrap().push_back(held);
        release
    }

    /// Waits until the model has received `calls` calls.
    pub async fn reached(&self, calls: usize) {
        while self.llm.requests().len() < calls {
            tokio::task::yield_now().await;
        }
    }

    /// Makes a unary call.
    pub fn unary(&self, call: TypedCall) -> impl Future<Output = Result<Response, BoxError>> + Send + use<> {
        self.layer.layer(self.gated(self.llm.unary())).oneshot(call)
    }

    /// Makes a streaming call.
    pub fn stream(
        &self,
        call: TypedCall,
    ) -> impl Future<Output = Result<ChatCompletionResponseStream, BoxError>> + Send + use<> {
        self.layer.layer(self.gated::<MockChatStream>(self.llm.stream())).oneshot(call)
    }

    /// Makes a call of this kind. Returns the text of the whole reply.
    pub async fn call(&self, kind: CallKind, call: TypedCall) -> Result<String, BoxError> {
        match kind {
            CallKind::Unary => Ok(response_text(&self.unary(call).await?).to_owned()),
            CallKind::Stream => {
                let items: Vec<_> = self.stream(call).await?.collect().await;
                Ok(reply_text(&items.into_iter().collect::<Result<Vec<_>, _>>()?))
            }
        }
    }

    /// Sends one user message in a call of this kind.
    pub async fn ask(&self, kind: CallKind, id: &ConversationId, text: &str) -> Result<String, BoxError> {
        self.call(kind, user_call(id, text)).await
    }

    fn gated<S>(&self, inner: S) -> Gated<S> {
        Gated { inner, held: Arc::clone(&self.held) }
    }
}

/// A service whose responses can be held: see [`Chat::hold_reply`].
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
        // Take it before the call is recorded. A test that waits for the record continues at once and may
        // make the next call, which must not be held instead.
        let held = self.held.lock().unwrap().pop_front();
        let answer = self.inner.call(request);
        Box::pin(async move {
            if let Some(held) = held {
                // Dropping the sender also releases the response.
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

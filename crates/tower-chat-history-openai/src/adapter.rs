//! The adapter for async-openai's own types.

use std::fmt;

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionResponseStream, CreateChatCompletionRequest,
    CreateChatCompletionResponse,
};
use tower_chat_history::{
    BoxError, InConversation, Message, Turn, TurnInput,
    adapt::{AdaptRequest, Draft, Opened, Prompt, RecordResponse, Sent},
};

use crate::{fold::ReplyFold, from_typed, to_typed};

/// Adapts `InConversation<CreateChatCompletionRequest>` for inner services that answer with async-openai's response or its
/// response stream. See the [crate docs](crate).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenAi;

impl OpenAi {
    /// The adapter.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl AdaptRequest<InConversation<CreateChatCompletionRequest>> for OpenAi {
    type Request = CreateChatCompletionRequest;
    type Draft = TypedDraft;

    async fn open(
        &self,
        call: InConversation<CreateChatCompletionRequest>,
    ) -> Result<Opened<TypedDraft, CreateChatCompletionRequest>, BoxError> {
        let (place, request) = call.into_parts();
        let Some(place) = place else { return Ok(Opened::Other(request)) };
        let instructions = request.messages.iter().take_while(|message| is_instruction(message)).count();
        let head = instructions.saturating_add(place.preamble).min(request.messages.len());
        let input: Result<Vec<Message>, _> = request.messages[head..].iter().map(Message::from_serialize).collect();
        let mut turn = TurnInput::new(place.conversation, input?).options(place.options);
        turn.exchange = place.exchange;
        turn.choices = request.n.map_or(1, usize::from);
        Ok(Opened::Chat(turn, TypedDraft { request, head }))
    }
}

const fn is_instruction(message: &ChatCompletionRequestMessage) -> bool {
    matches!(message, ChatCompletionRequestMessage::System(_) | ChatCompletionRequestMessage::Developer(_))
}

/// An async-openai request that waits for its history.
pub struct TypedDraft {
    request: CreateChatCompletionRequest,
    /// How many of its messages come before the window.
    head: usize,
}

impl Draft for TypedDraft {
    type Request = CreateChatCompletionRequest;

    fn send(mut self, prompt: Prompt<'_>) -> Result<Sent<CreateChatCompletionRequest>, BoxError> {
        let mut downgraded = 0;
        let converted = prompt.window.iter().filter_map(|message| {
            let converted = to_typed::request_message(message);
            downgraded += usize::from(converted.downgraded);
            converted.message
        });
        // Neither the head nor the input is converted back and forth: what the caller wrote is what is sent.
        let mut messages = Vec::with_capacity(self.request.messages.len() + prompt.window.len());
        let mut own = std::mem::take(&mut self.request.messages).into_iter();
        messages.extend(own.by_ref().take(self.head));
        messages.extend(converted);
        messages.extend(own);
        self.request.messages = messages;
        Ok(Sent::new(self.request, downgraded))
    }
}

impl fmt::Debug for TypedDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedDraft").field("messages", &self.request.messages.len()).finish_non_exhaustive()
    }
}

impl RecordResponse<CreateChatCompletionResponse> for OpenAi {
    type Response = CreateChatCompletionResponse;

    fn pass(&self, response: CreateChatCompletionResponse) -> Self::Response {
        response
    }

    /// The first choice becomes history. A response without choices is handed on, and nothing is stored.
    async fn record(&self, response: CreateChatCompletionResponse, turn: Turn) -> Result<Self::Response, BoxError> {
        let reply = from_typed::reply(&response)?;
        turn.record(response, reply).await
    }
}

impl RecordResponse<ChatCompletionResponseStream> for OpenAi {
    type Response = ChatCompletionResponseStream;

    fn pass(&self, response: ChatCompletionResponseStream) -> Self::Response {
        response
    }

    async fn record(&self, response: ChatCompletionResponseStream, turn: Turn) -> Result<Self::Response, BoxError> {
        let fold = ReplyFold::new(turn.choices());
        Ok(Box::pin(turn.record_stream(response, fold)))
    }
}

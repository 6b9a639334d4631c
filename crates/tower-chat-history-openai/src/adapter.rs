//! The adapter for async-openai's own types.

use std::{borrow::Cow, error::Error, fmt, ops::Range};

use async_openai::{
    error::{OpenAIError, StreamError},
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use futures_util::StreamExt as _;
use tower_chat_history::{
    BoxError, Message, TurnInput,
    adapt::{
        AdaptRequest, Completed, Draft, Opened, Prompt, Read, ReadResponse, RequestMessages,
        extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
    },
    engine::{InputMode, RequestInfo},
    error::StreamStalled,
};

use crate::{counter, deep, error_type::error_type, fold::TypedFold, from_typed, to_typed};

/// The provider, unless an adapter is told otherwise.
pub(crate) const PROVIDER: &str = "openai";

/// Adapts `InConversation<CreateChatCompletionRequest>` for inner services that answer with async-openai's response or its
/// response stream. See the [crate docs](crate).
///
/// With [`id_from`](Self::id_from) or [`id_from_task`](Self::id_from_task) it adapts `CreateChatCompletionRequest` itself:
///
/// ```
/// use async_openai::types::chat::{
///     ChatCompletionRequestUserMessage, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
/// };
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use tower_chat_history::{BoxError, ChatHistoryLayer, ConversationId, MemoryStore};
/// use tower_chat_history_openai::OpenAi;
/// use tower_chat_history_test::{MockLlm, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let adapter = OpenAi::new().id_from(|request: &CreateChatCompletionRequest| {
///     request.prompt_cache_key.as_ref().map(|key| ConversationId::new(["acme", key]))
/// });
/// let llm = MockLlm::script([Reply::text("Hello"), Reply::text("Again")]);
/// let layer = ChatHistoryLayer::new(MemoryStore::new(), adapter);
/// let mut chat = ServiceBuilder::new().layer(layer).service(llm.unary());
///
/// let request = CreateChatCompletionRequestArgs::default()
///     .model("mock")
///     .prompt_cache_key("user-42")
///     .messages(vec![ChatCompletionRequestUserMessage::from("Hi").into()])
///     .build()?;
/// chat.ready().await?.call(request.clone()).await?;
/// chat.ready().await?.call(request).await?;
/// assert_eq!(llm.prompts()[1].len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenAi<X = Envelope> {
    extract: X,
    mode: InputMode,
    provider: Option<&'static str>,
}

impl OpenAi {
    /// The adapter of `InConversation<CreateChatCompletionRequest>`.
    #[must_use]
    pub const fn new() -> Self {
        Self { extract: Envelope::new(), mode: InputMode::New, provider: None }
    }
}

impl<X> OpenAi<X> {
    /// The adapter of `CreateChatCompletionRequest` itself, whose conversation a closure finds. See [`IdFrom`].
    pub fn id_from<F, T>(self, find: F) -> OpenAi<IdFrom<F>>
    where
        F: Fn(&CreateChatCompletionRequest) -> T,
        T: IntoCallScope,
    {
        self.extract_by(IdFrom::new(find))
    }

    /// The adapter of `CreateChatCompletionRequest` itself, in the conversation of the
    /// [running task](tower_chat_history::in_conversation).
    pub fn id_from_task(self) -> OpenAi<FromTask> {
        self.extract_by(FromTask::new())
    }

    /// The adapter with that extractor.
    pub fn extract_by<Y>(self, extract: Y) -> OpenAi<Y> {
        OpenAi { extract, mode: self.mode, provider: self.provider }
    }

    /// What of a request is new. The default is [`InputMode::New`]: everything behind the head.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.mode = mode;
        self
    }

    /// Who serves the model, by OpenTelemetry's name for that (`gen_ai.provider.name`): `azure.ai.openai`, `groq`, `mistral_ai`,
    /// `deepseek`, `x_ai`. It is told in spans and counts for nothing else. The default is `openai`.
    #[must_use]
    pub fn provider(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }
}

impl<X> AdaptRequest<X::Call> for OpenAi<X>
where
    X: ExtractScope<CreateChatCompletionRequest, Call: Send> + Sync,
{
    type Request = CreateChatCompletionRequest;
    type Draft = TypedDraft;

    async fn open(&self, call: X::Call) -> Result<Opened<TypedDraft, CreateChatCompletionRequest>, BoxError> {
        let (scope, request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else { return Ok(Opened::PassThrough(request)) };
        let request = deep::checked(request)?;
        let messages: Result<Vec<Message>, _> = request.messages.iter().map(Message::from_serialize).collect();
        let split = RequestMessages::split(messages?, options.few_shot_messages, self.mode);
        let draft = TypedDraft { request, resent: split.transcript_range() };
        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        turn.choices = draft.request.n.map_or(1, usize::from);
        turn.counter = counter::for_model(&draft.request.model);
        turn.request = info(&draft.request, split.head)?;
        turn.request.provider = Some(self.provider.unwrap_or(PROVIDER));
        Ok(Opened::Turn(turn, draft))
    }
}

fn info(request: &CreateChatCompletionRequest, head: Vec<Message>) -> Result<RequestInfo, serde_json::Error> {
    let mut info = RequestInfo::new();
    info.model = Some(request.model.clone());
    info.head = head;
    info.tools = request.tools.as_ref().map(serde_json::to_string).transpose()?;
    info.response_format = request.response_format.as_ref().map(serde_json::to_string).transpose()?;
    info.max_output = reply_limit(request);
    info.temperature = request.temperature.and_then(as_written);
    info.top_p = request.top_p.and_then(as_written);
    Ok(info)
}

/// The number as it would be written, and as it is sent: of 0.7, widening alone makes 0.699999988079071.
fn as_written(number: f32) -> Option<f64> {
    number.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

/// The field that limits the reply: the newer one, if it is used.
#[allow(deprecated)] // Callers still use the older one.
const fn reply_limit(request: &CreateChatCompletionRequest) -> Option<u32> {
    if request.max_completion_tokens.is_some() { request.max_completion_tokens } else { request.max_tokens }
}

#[allow(deprecated)]
const fn limit_reply(request: &mut CreateChatCompletionRequest, tokens: u32) {
    if request.max_completion_tokens.is_some() {
        request.max_completion_tokens = Some(tokens);
    } else if request.max_tokens.is_some() {
        request.max_tokens = Some(tokens);
    }
}

/// An async-openai request that waits for its history.
pub struct TypedDraft {
    request: CreateChatCompletionRequest,
    /// Where in its messages the transcript stands: the window replaces it.
    resent: Range<usize>,
}

impl Draft for TypedDraft {
    type Request = CreateChatCompletionRequest;

    fn complete(mut self, prompt: Prompt<'_>) -> Result<Completed<CreateChatCompletionRequest>, BoxError> {
        let mut downgraded = 0;
        let converted = prompt.window.iter().filter_map(|message| {
            let converted = to_typed::request_message(message);
            downgraded += usize::from(converted.downgraded);
            if converted.downgraded {
                to_typed::warn_of_lost_reasoning(message);
            }
            converted.message
        });
        // Neither the head nor the input is converted back and forth: what the caller wrote is what is sent.
        let mut messages = Vec::with_capacity(self.request.messages.len() + prompt.window.len());
        let mut own = std::mem::take(&mut self.request.messages).into_iter();
        messages.extend(own.by_ref().take(self.resent.start));
        messages.extend(converted);
        messages.extend(own.skip(self.resent.len()));
        self.request.messages = messages;
        if let Some(tokens) = prompt.reply_limit {
            limit_reply(&mut self.request, tokens);
        }
        Ok(Completed::new(self.request, downgraded))
    }
}

impl fmt::Debug for TypedDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedDraft").field("messages", &self.request.messages.len()).finish_non_exhaustive()
    }
}

impl<X: Sync> ReadResponse<CreateChatCompletionResponse> for OpenAi<X> {
    type Response = CreateChatCompletionResponse;

    fn pass(&self, response: CreateChatCompletionResponse) -> Self::Response {
        response
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Stores the choice with the least index. A response without choices is handed on, and nothing is stored.
    async fn read(&self, response: CreateChatCompletionResponse, _: usize) -> Result<Read<Self::Response>, BoxError> {
        let reply = from_typed::reply(&response)?;
        Ok(Read::whole(response, reply))
    }
}

impl<X: Sync> ReadResponse<ChatCompletionResponseStream> for OpenAi<X> {
    type Response = ChatCompletionResponseStream;

    fn pass(&self, response: ChatCompletionResponseStream) -> Self::Response {
        response
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    async fn read(
        &self,
        response: ChatCompletionResponseStream,
        choices: usize,
    ) -> Result<Read<Self::Response>, BoxError> {
        Ok(Read::stream(response, TypedFold::new(choices), stalled, |recorded| recorded.boxed()))
    }
}

/// A stream that was ended by the idle timeout, as async-openai tells of streams that fail.
fn stalled(stalled: StreamStalled) -> OpenAIError {
    OpenAIError::StreamError(Box::new(StreamError::EventStream(stalled.to_string())))
}

#[cfg(test)]
mod tests {
    use async_openai::types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs};
    use tower::{Layer as _, Service as _, ServiceExt as _};
    use tower_chat_history::{
        ChatHistoryLayer, ConversationId, InConversation, MemoryStore, MissingConversation, adapt::extract::stateless,
        in_conversation,
    };
    use tower_chat_history_test::{MockLlm, Reply};

    use super::*;

    #[tokio::test]
    async fn extractors_decide_what_a_call_is() {
        let request = || {
            let messages = vec![ChatCompletionRequestUserMessage::from("u").into()];
            CreateChatCompletionRequestArgs::default().model("m").messages(messages).build().unwrap()
        };
        let id = ConversationId::new(["tests", "one"]).unwrap();
        let (store, llm) = (MemoryStore::new(), MockLlm::rules(|prompt| Reply::text(prompt.len().to_string())));

        let mut envelope = ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm.unary());
        envelope.ready().await.unwrap().call(InConversation::new(id.clone(), request())).await.unwrap();

        let mut task = ChatHistoryLayer::new(store.clone(), OpenAi::new().id_from_task()).layer(llm.stream());
        let missing = task.ready().await.unwrap().call(request()).await.err().unwrap();
        assert!(missing.is::<MissingConversation>());
        drop(stateless(async { task.ready().await.unwrap().call(request()).await.unwrap() }).await);
        drop(in_conversation(id, async { task.ready().await.unwrap().call(request()).await.unwrap() }).await);
        assert_eq!(llm.prompts().iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 3]);
    }

    #[tokio::test]
    async fn what_a_request_asks_for_is_told() {
        let request = CreateChatCompletionRequest {
            model: "m".into(),
            temperature: Some(0.7),
            top_p: Some(f32::NAN),
            max_completion_tokens: Some(7),
            ..CreateChatCompletionRequest::default()
        };
        let id = || ConversationId::new(["tests", "one"]);
        for (adapter, provider) in [(OpenAi::new(), "openai"), (OpenAi::new().provider("groq"), "groq")] {
            let Opened::Turn(turn, _) = adapter.id_from(move |_| id()).open(request.clone()).await.unwrap() else {
                panic!("no chat")
            };
            let info = turn.request;
            assert_eq!((info.model.as_deref(), info.provider, info.max_output), (Some("m"), Some(provider), Some(7)));
            assert_eq!((info.temperature, info.top_p), (Some(0.7), None));
        }
    }
}

//! The adapter for async-openai's types.

use std::{borrow::Cow, error::Error, fmt, mem, ops::Range};

use async_openai::{
    error::{OpenAIError, StreamError},
    types::chat::{
        ChatCompletionResponseStream, ChatCompletionToolChoiceOption, ChatCompletionTools, CreateChatCompletionRequest,
        CreateChatCompletionResponse, ResponseFormat,
    },
};
use futures_util::StreamExt as _;
use serde_json::Value;
use tower_chat_history::{
    BoxError, Message, TurnInput,
    adapt::{
        AdaptRequest, CallFacts, Draft, ModelRequest, OpenedRequest, Prompt, ReadResponse, Reading, RequestMessages,
        extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
        first_item, nested,
    },
    engine::{InputMode, RequestInfo},
    error::StreamStalled,
    refusal::Remedy,
};

use crate::{
    carry::{Input, Window},
    error_type::{error_type, remedy_of},
    fold::TypedFold,
    from_typed, to_typed, tokens,
};

/// The default provider of adapters.
pub(crate) const PROVIDER: &str = "openai";

/// Adapts async-openai's types for [`ChatHistoryLayer`](tower_chat_history::ChatHistoryLayer). The layered service
/// takes `InConversation<CreateChatCompletionRequest>`. The inner service takes `CreateChatCompletionRequest`, and
/// returns async-openai's response or response stream.
///
/// # Head and input
///
/// The system and developer messages at the beginning of a request are its head: they are sent first and never stored.
/// [`InConversation::few_shot_messages`](tower_chat_history::InConversation::few_shot_messages) adds the few-shot
/// messages after them to the head. All other messages are input: they are stored with the reply. If callers resend
/// their whole list, set the [input mode](Self::input_mode).
///
/// # Conversations from requests
///
/// With [`id_from`](Self::id_from) or [`id_from_task`](Self::id_from_task), the layered service takes a plain
/// `CreateChatCompletionRequest`:
///
/// ```
/// use async_openai::types::chat::{
///     ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
///     CreateChatCompletionRequestArgs,
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
    /// Creates an adapter for calls of the type `InConversation<CreateChatCompletionRequest>`.
    #[must_use]
    pub const fn new() -> Self {
        Self { extract: Envelope::new(), mode: InputMode::New, provider: None }
    }
}

impl<X> OpenAi<X> {
    /// Returns an adapter for plain `CreateChatCompletionRequest`s. The closure finds the conversation in the request.
    /// See [`IdFrom`].
    pub fn id_from<F, T>(self, find: F) -> OpenAi<IdFrom<F>>
    where
        F: Fn(&CreateChatCompletionRequest) -> T,
        T: IntoCallScope,
    {
        self.extract_by(IdFrom::new(find))
    }

    /// Returns an adapter for plain `CreateChatCompletionRequest`s. Each belongs to the conversation of the [running
    /// task](tower_chat_history::in_conversation).
    pub fn id_from_task(self) -> OpenAi<FromTask> {
        self.extract_by(FromTask::new())
    }

    /// Returns an adapter that finds the conversation with this extractor.
    pub fn extract_by<Y>(self, extract: Y) -> OpenAi<Y> {
        OpenAi { extract, mode: self.mode, provider: self.provider }
    }

    /// Sets which messages of a request are input. The default is [`InputMode::New`]: all messages after the head.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the provider that serves the model, as a value of OpenTelemetry's attribute `gen_ai.provider.name`:
    /// `azure.ai.openai`, `groq`, `mistral_ai`, `deepseek`, `gcp.gemini`, `openrouter`. Spans have it. It is also the
    /// provider of the [origin](tower_chat_history::HistoryOptions::origin) if the options name none.
    ///
    /// If the provider is known to refuse tool calls without a field that async-openai's types cannot carry, calls with
    /// such a history fail with [`CannotCarry`](crate::CannotCarry). By default, the origin's provider is unknown, and
    /// spans have `openai`.
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

    async fn open(&self, call: X::Call) -> Result<OpenedRequest<TypedDraft, CreateChatCompletionRequest>, BoxError> {
        let (scope, request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else { return Ok(OpenedRequest::PassThrough(request)) };

        let request = check_depth(request)?;
        let messages: Result<Vec<Message>, _> = request.messages.iter().map(from_typed::request_message).collect();
        let split = RequestMessages::split(messages?, options.few_shot_messages, self.mode);
        let draft = TypedDraft { request, resent: split.transcript_range() };

        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        turn.choices = draft.request.n.map_or(1, usize::from);
        turn.counter = tokens::counter_for_model(&draft.request.model);
        turn.request = info(&draft.request, split.head)?;
        // For spans, which always name a provider.
        turn.request.provider = Some(self.provider.unwrap_or(PROVIDER));
        // Decides which reasoning is sent. A default would be a guess here: many providers have this API.
        turn.request.origin.provider = self.provider.map(str::to_owned);
        Ok(OpenedRequest::Turn(turn, draft))
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

/// Returns the number as it is written in JSON. Widening 0.7 from `f32` to `f64` would return 0.699999988079071.
fn as_written(number: f32) -> Option<f64> {
    number.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the request's limit of the reply: the newer field, or else the older one.
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
    /// Boxed, because it is moved several times until it has its history.
    request: Box<CreateChatCompletionRequest>,
    /// The range of the transcript in the request's messages. The window replaces it.
    resent: Range<usize>,
}

impl Draft for TypedDraft {
    type Request = CreateChatCompletionRequest;

    fn complete(mut self, prompt: Prompt<'_>) -> Result<ModelRequest<CreateChatCompletionRequest>, BoxError> {
        let input = Input::of(self.request.messages.get(self.resent.end..).unwrap_or_default());
        Window { messages: prompt.window, model: &self.request.model, input }.check(prompt.provider)?;

        // Head and input are sent as the caller wrote them, without a conversion to the log's form and back.
        let mut messages = Vec::with_capacity(self.request.messages.len() + prompt.window.len());
        let mut own = mem::take(&mut self.request.messages).into_iter();
        messages.extend(own.by_ref().take(self.resent.start).skip(prompt.left_out_of_head));

        let mut downgraded = 0;
        for message in prompt.window {
            let typed = to_typed::request_message(message);
            if typed.downgraded {
                downgraded += 1;
                to_typed::warn_of_lost_reasoning(message);
            }
            messages.extend(typed.message);
        }

        messages.extend(own.skip(self.resent.len()));
        self.request.messages = messages;
        if let Some(tokens) = prompt.reply_limit {
            limit_reply(&mut self.request, tokens);
        }
        if let Some(tool) = prompt.stub_tool.and_then(|tool| serde_json::from_str(tool).ok()) {
            self.request.tools = Some(vec![tool]);
        }
        Ok(ModelRequest::new(*self.request, downgraded))
    }

    fn again(&self) -> Option<Self> {
        Some(Self { request: self.request.clone(), resent: self.resent.clone() })
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

    fn remedy(&self, error: &(dyn Error + 'static)) -> Option<Remedy> {
        remedy_of(error)
    }

    /// Reads the choice with the smallest index as the reply. A response without choices is returned to the caller, and
    /// nothing is stored.
    async fn read(
        &self,
        response: CreateChatCompletionResponse,
        _: CallFacts,
    ) -> Result<Reading<Self::Response>, BoxError> {
        let reply = from_typed::reply(&response)?;
        Ok(Reading::whole(response, reply))
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

    fn remedy(&self, error: &(dyn Error + 'static)) -> Option<Remedy> {
        remedy_of(error)
    }

    async fn read(
        &self,
        response: ChatCompletionResponseStream,
        call: CallFacts,
    ) -> Result<Reading<Self::Response>, BoxError> {
        let mut response = response.peekable();
        // The client reports the status of a stream as the stream's first item.
        if call.is_repeatable
            && let Some(Err(error)) = first_item(&mut response).await
            && let Some(remedy) = remedy_of(error)
        {
            let kind = error_type(error);
            return Ok(Reading::failed(response.boxed(), kind).with_remedy(Some(remedy)));
        }
        Ok(Reading::stream(response, TypedFold::new(call.choices), stalled, |recorded| recorded.boxed()))
    }
}

/// A request with a schema of more than [128 levels](nested::MAX_LEVELS) of lists and objects, in its tools, functions,
/// tool choice or response format. Serializing it could overflow the stack. The model is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a schema of the request has more than {} levels", nested::MAX_LEVELS)]
#[non_exhaustive]
pub struct RequestTooDeep;

/// Returns the request if none of its schemas has too many levels. It is boxed, because it is large, and callers move
/// it several times.
pub(crate) fn check_depth(
    request: CreateChatCompletionRequest,
) -> Result<Box<CreateChatCompletionRequest>, RequestTooDeep> {
    let mut request = Box::new(request);
    if schemas(&mut request).all(|schema| !nested::is_too_deep(schema)) {
        return Ok(request);
    }

    for schema in schemas(&mut request) {
        nested::dismantle(mem::take(schema));
    }
    Err(RequestTooDeep)
}

/// Returns the values of a request that can have any number of levels.
#[allow(deprecated)] // Callers still use functions.
fn schemas(request: &mut CreateChatCompletionRequest) -> impl Iterator<Item = &mut Value> {
    let CreateChatCompletionRequest { tools, functions, response_format, tool_choice, .. } = request;
    let tools = tools.iter_mut().flatten().filter_map(|tool| match tool {
        ChatCompletionTools::Function(tool) => tool.function.parameters.as_mut(),
        ChatCompletionTools::Custom(_) => None,
    });
    let functions = functions.iter_mut().flatten().map(|function| &mut function.parameters);
    let format = response_format.iter_mut().filter_map(|format| match format {
        ResponseFormat::JsonSchema { json_schema } => Some(&mut json_schema.schema),
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    });
    let allowed = tool_choice.iter_mut().flat_map(|choice| match choice {
        ChatCompletionToolChoiceOption::AllowedTools(allowed) => allowed.allowed_tools.as_mut_slice(),
        _ => &mut [],
    });
    let allowed = allowed.flat_map(|allowed| &mut allowed.tools);
    tools.chain(functions).chain(format).chain(allowed)
}

/// Converts the idle timeout of a stream to async-openai's error type for streams.
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
    async fn extractors_decide_the_type_of_calls_and_their_conversation() {
        let request = || {
            let messages = vec![ChatCompletionRequestUserMessage::from("u").into()];
            CreateChatCompletionRequestArgs::default().model("m").messages(messages).build().unwrap()
        };
        let id = ConversationId::new(["tests", "one"]).unwrap();
        let store = MemoryStore::new();
        let llm = MockLlm::rules(|prompt| Reply::text(prompt.len().to_string()));

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
    async fn the_request_info_has_model_provider_limit_and_sampling() {
        let request = CreateChatCompletionRequest {
            model: "m".into(),
            temperature: Some(0.7),
            top_p: Some(f32::NAN),
            max_completion_tokens: Some(7),
            ..CreateChatCompletionRequest::default()
        };
        let id = || ConversationId::new(["tests", "one"]);
        for (adapter, provider) in [(OpenAi::new(), "openai"), (OpenAi::new().provider("groq"), "groq")] {
            let OpenedRequest::Turn(turn, _) = adapter.id_from(move |_| id()).open(request.clone()).await.unwrap()
            else {
                panic!("not a turn")
            };
            let info = turn.request;
            assert_eq!((info.model.as_deref(), info.provider, info.max_output), (Some("m"), Some(provider), Some(7)));
            assert_eq!((info.temperature, info.top_p), (Some(0.7), None));
        }
    }
}

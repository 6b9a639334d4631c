//! The adapter for `serde_json::Value` in the chat-completions format.

mod value;

use std::{fmt, ops::Range};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use tower_chat_history_context::{InputMode, RequestInfo};
use tower_chat_history_core::{Message, MessageError, nested};

use super::{
    AdaptRequest, Asked, Completed, Draft, Opened, Prompt, Read, ReadResponse, RequestMessages,
    extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
};
use crate::{
    call::TurnInput,
    completion::{self, ChunkFold},
    error::{BoxError, StreamStalled},
};

/// Adapts requests and responses that are [`serde_json::Value`]s in the chat-completions format.
///
/// Fields that only some providers have are preserved. In a request, only `"messages"` changes, and the reply limit
/// if the budget lowers it. A reply is stored with all its fields.
///
/// ```
/// use serde_json::{Value, json};
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use tower_chat_history::{BoxError, ChatHistoryLayer, ConversationId, InConversation, MemoryStore, adapt::Json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|request: Value| async move {
/// #     let count = request["messages"].as_array().map_or(0, Vec::len);
/// #     Ok::<_, std::io::Error>(json!({"choices": [{"message": {"role": "assistant", "content": count}}]}))
/// # });
/// let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), Json::new())).service(llm);
///
/// let id = ConversationId::new(["acme", "user-42"])?;
/// let request = json!({"model": "any", "messages": [{"role": "user", "content": "Hi"}]});
/// chat.ready().await?.call(InConversation::new(id.clone(), request.clone())).await?;
/// let second = chat.ready().await?.call(InConversation::new(id, request)).await?;
/// assert_eq!(second["choices"][0]["message"]["content"], 3);
/// # Ok(())
/// # }
/// ```
///
/// # Requests
///
/// A call is an [`InConversation<Value>`](crate::InConversation), unless another [extractor](super::extract) is set.
/// The head is the leading system and developer messages, and after them the number of messages that
/// [`few_shot_messages`](crate::CallOptions::few_shot_messages) sets. It is sent first and never stored. All other
/// messages are the input. The window is inserted between head and input. Messages in the formats of other APIs
/// (Anthropic's blocks, items of the Responses API) are refused with
/// [`InputError::Foreign`](crate::error::InputError::Foreign).
///
/// # Responses
///
/// The inner service returns a `Value`, or a `BoxStream<'static, Result<Value, E>>` of chunks. Both are read by the
/// rules of [`completion`]. A response in another format is returned unchanged, and the exchange is not stored. The
/// report then says [`UnreadableReply`](crate::report::NotStored::UnreadableReply).
///
/// # Messages that a `Value` cannot represent
///
/// `serde_json` cannot read some stored messages as a `Value`, for example one with a lone surrogate or a number out
/// of range. Of such a message, the fields that can be read are sent. If text, tool calls or `reasoning_content`
/// cannot, they are sent with U+FFFD in place of the surrogates. All other fields are left out, and the message is
/// counted as downgraded. In all messages that are sent, `serde_json` determines the order of keys and the format of
/// numbers.
#[derive(Clone, Debug, Default)]
pub struct Json<X = Envelope> {
    extract: X,
    mode: InputMode,
    provider: Option<&'static str>,
}

impl Json {
    /// Creates an adapter whose calls are `InConversation<Value>`.
    #[must_use]
    pub const fn new() -> Self {
        Self { extract: Envelope::new(), mode: InputMode::New, provider: None }
    }
}

impl<X> Json<X> {
    /// Sets a closure that returns the conversation of a request. The caller then sends a `Value` itself, not an
    /// `InConversation<Value>`. See [`IdFrom`].
    pub fn id_from<F, T>(self, find: F) -> Json<IdFrom<F>>
    where
        F: Fn(&Value) -> T,
        T: IntoCallScope,
    {
        self.extract_by(IdFrom::new(find))
    }

    /// Uses the conversation of the [running task](super::extract::in_conversation). The caller then sends a `Value`
    /// itself, not an `InConversation<Value>`.
    pub fn id_from_task(self) -> Json<FromTask> {
        self.extract_by(FromTask::new())
    }

    /// Sets the extractor, which determines the type of the calls.
    pub fn extract_by<Y>(self, extract: Y) -> Json<Y> {
        Json { extract, mode: self.mode, provider: self.provider }
    }

    /// Sets which messages of a request are new. The default is [`InputMode::New`]: all messages after the
    /// head.
    #[must_use]
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the provider of the model, by its OpenTelemetry name (`gen_ai.provider.name`): `openai`,
    /// `azure.ai.openai`, `anthropic`, `groq`, `mistral_ai`, `deepseek`, `x_ai`. It appears in spans, and it is the
    /// provider of the [origin](crate::HistoryOptions::origin) if the options name none. The default is none.
    #[must_use]
    pub fn provider(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }
}

/// The error for a request whose messages cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonRequestError {
    /// The request has no messages.
    #[error("the request has no \"messages\"")]
    NoMessages,
    /// The messages are not an array.
    #[error("the request's \"messages\" is {found}, not an array")]
    MessagesNotArray {
        /// The type of the value, such as `a string`.
        found: &'static str,
    },
    /// The request has more than [128 levels](crate::adapt::nested::MAX_LEVELS) of lists and objects.
    #[error("the request has more than {} levels", nested::MAX_LEVELS)]
    TooDeep,
    /// A message cannot be stored.
    #[error("messages[{position}] of the request cannot be stored: {source}")]
    Message {
        /// The index of the message in `"messages"`, counted from 0.
        position: usize,
        /// The cause.
        #[source]
        source: MessageError,
    },
}

impl<X> AdaptRequest<X::Call> for Json<X>
where
    X: ExtractScope<Value, Call: Send> + Sync,
{
    type Request = Value;
    type Draft = JsonDraft;

    async fn open(&self, call: X::Call) -> Result<Opened<JsonDraft, Value>, BoxError> {
        let (scope, request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else { return Ok(Opened::PassThrough(request)) };
        if nested::is_too_deep(&request) {
            nested::dismantle(request);
            return Err(JsonRequestError::TooDeep.into());
        }
        let messages = messages(&request)?;
        let stored = messages.iter().enumerate().map(|(position, message)| {
            Message::from_serialize(message).map_err(|source| JsonRequestError::Message { position, source })
        });
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let split = RequestMessages::split(stored, options.few_shot_messages, self.mode);
        let resent = split.transcript_range();
        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        let choices = request.get("n").and_then(Value::as_u64);
        turn.choices = choices.map_or(1, |choices| usize::try_from(choices).unwrap_or(usize::MAX));
        turn.request = info(&request, split.head);
        turn.request.provider = self.provider;
        turn.request.origin.provider = self.provider.map(str::to_owned);
        Ok(Opened::Turn(turn, JsonDraft { request, resent }))
    }
}

/// The fields that limit the reply, in tokens. If a request has both, the first one applies.
const REPLY_LIMITS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

fn info(request: &Value, head: Vec<Message>) -> RequestInfo {
    let json = |name: &str| request.get(name).filter(|value| !value.is_null()).map(Value::to_string);
    let limit = REPLY_LIMITS.into_iter().find_map(|name| request.get(name)?.as_u64());
    let mut info = RequestInfo::new();
    info.model = request.get("model").and_then(Value::as_str).map(str::to_owned);
    info.head = head;
    info.tools = json("tools");
    info.response_format = json("response_format");
    info.max_output = limit.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    info.temperature = request.get("temperature").and_then(Value::as_f64);
    info.top_p = request.get("top_p").and_then(Value::as_f64);
    info
}

fn messages(request: &Value) -> Result<&Vec<Value>, JsonRequestError> {
    let found = match request.get("messages") {
        Some(Value::Array(messages)) => return Ok(messages),
        None => return Err(JsonRequestError::NoMessages),
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Object(_)) => "an object",
    };
    Err(JsonRequestError::MessagesNotArray { found })
}

/// A JSON request that waits for its history.
pub struct JsonDraft {
    request: Value,
    /// The range of the request's messages that is the transcript. The window replaces it.
    resent: Range<usize>,
}

impl Draft for JsonDraft {
    type Request = Value;

    fn complete(mut self, prompt: Prompt<'_>) -> Result<Completed<Value>, BoxError> {
        let mut downgraded = 0;
        let window = prompt.window.iter().map(|message| {
            let verbatim = serde_json::from_str(message.json());
            downgraded += usize::from(verbatim.is_err());
            verbatim.unwrap_or_else(|_| value::from_readable_fields(message))
        });
        let Some(Value::Array(messages)) = self.request.get_mut("messages") else {
            return Err(JsonRequestError::NoMessages.into());
        };
        // The list has the same length as in `open`, so `min` only prevents a panic.
        let resent = self.resent.start..self.resent.end.min(messages.len());
        messages.splice(resent, window);
        if let Some(tokens) = prompt.reply_limit {
            let mut names = REPLY_LIMITS.into_iter();
            if let Some(limit) = names.find_map(|name| self.request.get(name)?.as_u64().map(|_| name)) {
                self.request[limit] = tokens.into();
            }
        }
        Ok(Completed::new(self.request, downgraded))
    }
}

impl fmt::Debug for JsonDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonDraft").field("head", &self.resent.start).finish_non_exhaustive()
    }
}

impl<X: Sync> ReadResponse<Value> for Json<X> {
    type Response = Value;

    fn pass(&self, response: Value) -> Value {
        response
    }

    async fn read(&self, response: Value, _: Asked) -> Result<Read<Value>, BoxError> {
        let reply = completion::reply_of_value(&response);
        Ok(Read::whole(response, reply))
    }
}

impl<X, E> ReadResponse<BoxStream<'static, Result<Value, E>>> for Json<X>
where
    X: Sync,
    E: From<StreamStalled> + Send + 'static,
{
    type Response = BoxStream<'static, Result<Value, E>>;

    fn pass(&self, response: BoxStream<'static, Result<Value, E>>) -> Self::Response {
        response
    }

    async fn read(
        &self,
        response: BoxStream<'static, Result<Value, E>>,
        asked: Asked,
    ) -> Result<Read<Self::Response>, BoxError> {
        Ok(Read::stream(response, ChunkFold::new(asked.choices), E::from, |recorded| recorded.boxed()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower_chat_history_core::ConversationId;

    use super::*;
    use crate::call::InConversation;

    async fn opened(adapter: &Json, request: Value) -> RequestInfo {
        let call = InConversation::new(ConversationId::new(["tests"]).unwrap(), request);
        let Opened::Turn(turn, _) = adapter.open(call).await.unwrap() else { panic!("not a turn") };
        turn.request
    }

    #[tokio::test]
    async fn request_parameters_and_provider_are_read() {
        let request = json!({"model": "m", "messages": [], "max_tokens": 7, "temperature": 0.7, "top_p": 1});
        let info = opened(&Json::new().input_mode(InputMode::New).provider("groq"), request).await;
        assert_eq!((info.model.as_deref(), info.provider, info.max_output), (Some("m"), Some("groq"), Some(7)));
        assert_eq!((info.temperature, info.top_p), (Some(0.7), Some(1.0)));

        let info = opened(&Json::new(), json!({"messages": [], "temperature": "0.7", "top_p": null})).await;
        assert_eq!((info.provider, info.temperature, info.top_p), (None, None, None));
    }

    #[tokio::test]
    async fn another_extractor_keeps_the_provider() {
        let adapter = Json::new().provider("groq").id_from(|_: &Value| ConversationId::new(["tests"]));
        let Opened::Turn(turn, _) = adapter.open(json!({"messages": []})).await.unwrap() else { panic!("not a turn") };
        assert_eq!(turn.request.provider, Some("groq"));
    }
}

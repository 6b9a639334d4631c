//! The adapter for `serde_json::Value` in the chat-completions format.

use std::{fmt, ops::Range};

use crate::context::{InputMode, RequestInfo};
use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::{Map, Value, json, value::RawValue};
use tower_chat_history_core::{
    Message, MessageError, ToolCall,
    json::{raw_entries, text},
    nested,
};

use super::{
    AdaptRequest, CallFacts, Draft, ModelRequest, OpenedRequest, Prompt, ReadResponse, Reading, RequestMessages,
    extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
    first_item,
};
use crate::{
    call::TurnInput,
    completion::{self, ChunkFold},
    error::{BoxError, StreamStalled},
    refusal::Remedy,
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

    async fn open(&self, call: X::Call) -> Result<OpenedRequest<JsonDraft, Value>, BoxError> {
        let (scope, request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else { return Ok(OpenedRequest::PassThrough(request)) };
        if nested::is_too_deep(&request) {
            nested::dismantle(request);
            return Err(JsonRequestError::TooDeep.into());
        }

        let mut messages = Vec::new();
        for (position, message) in list(&request)?.iter().enumerate() {
            let message = Message::from_serialize(message);
            messages.push(message.map_err(|source| JsonRequestError::Message { position, source })?);
        }
        let split = RequestMessages::split(messages, options.few_shot_messages, self.mode);
        let resent = split.transcript_range();
        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        let choices = request.get("n").and_then(Value::as_u64);
        turn.choices = choices.map_or(1, |choices| usize::try_from(choices).unwrap_or(usize::MAX));
        turn.request = info(&request, split.head);
        turn.request.provider = self.provider;
        turn.request.origin.provider = self.provider.map(str::to_owned);
        Ok(OpenedRequest::Turn(turn, JsonDraft { request, resent }))
    }
}

/// The fields that limit the reply, in tokens. If a request has both, the first one applies.
const REPLY_LIMITS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

fn info(request: &Value, head: Vec<Message>) -> RequestInfo {
    let limit = REPLY_LIMITS.into_iter().find_map(|name| request.get(name)?.as_u64());
    let mut info = RequestInfo::new();
    info.model = request.get("model").and_then(Value::as_str).map(str::to_owned);
    info.head = head;
    info.tools = json_of(request, "tools");
    info.response_format = json_of(request, "response_format");
    info.max_output = limit.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    info.temperature = request.get("temperature").and_then(Value::as_f64);
    info.top_p = request.get("top_p").and_then(Value::as_f64);
    info
}

/// Returns the JSON of a field, unless it is null.
fn json_of(request: &Value, field: &str) -> Option<String> {
    request.get(field).filter(|value| !value.is_null()).map(Value::to_string)
}

fn list(request: &Value) -> Result<&Vec<Value>, JsonRequestError> {
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
#[derive(Clone)]
pub struct JsonDraft {
    request: Value,
    /// The range of the request's messages that is the transcript. The window replaces it.
    resent: Range<usize>,
}

impl Draft for JsonDraft {
    type Request = Value;

    fn complete(mut self, prompt: Prompt<'_>) -> Result<ModelRequest<Value>, BoxError> {
        let mut downgraded = 0;
        let mut window = Vec::with_capacity(prompt.window.len());
        for message in prompt.window {
            window.push(serde_json::from_str(message.json()).unwrap_or_else(|_| {
                downgraded += 1;
                from_readable_fields(message)
            }));
        }

        let Some(Value::Array(messages)) = self.request.get_mut("messages") else {
            return Err(JsonRequestError::NoMessages.into());
        };
        // The list has the same length as in `open`, so `min` only prevents a panic.
        let resent = self.resent.start..self.resent.end.min(messages.len());
        messages.splice(resent, window);
        messages.drain(..prompt.left_out_of_head.min(self.resent.start));
        if let Some(tool) = prompt.stub_tool.and_then(|tool| serde_json::from_str::<Value>(tool).ok()) {
            self.request["tools"] = Value::from(vec![tool]);
        }

        if let Some(tokens) = prompt.reply_limit {
            let mut names = REPLY_LIMITS.into_iter();
            if let Some(limit) = names.find(|name| self.request.get(name).is_some_and(Value::is_u64)) {
                self.request[limit] = tokens.into();
            }
        }
        Ok(ModelRequest::new(self.request, downgraded))
    }

    fn again(&self) -> Option<Self> {
        Some(self.clone())
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

    /// Reads the reply of a response. A response with an `error` has none. If there is a remedy for the error, the call
    /// is repeated.
    async fn read(&self, response: Value, call: CallFacts) -> Result<Reading<Value>, BoxError> {
        if let Some(remedy) = remedy_of(&response).filter(|_| call.is_repeatable) {
            return Ok(Reading::failed(response, "error").with_remedy(Some(remedy)));
        }
        let reply = completion::reply_of_value(&response);
        Ok(Reading::whole(response, reply))
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
        call: CallFacts,
    ) -> Result<Reading<Self::Response>, BoxError> {
        let mut response = response.peekable();
        if call.is_repeatable
            && let Some(Ok(first)) = first_item(&mut response).await
            && let Some(remedy) = remedy_of(first)
        {
            return Ok(Reading::failed(response.boxed(), "stream").with_remedy(Some(remedy)));
        }
        Ok(Reading::stream(response, ChunkFold::new(call.choices), E::from, |recorded| recorded.boxed()))
    }
}

/// Returns the remedy for a response, or a chunk, that is an error.
fn remedy_of(response: &Value) -> Option<Remedy> {
    if response.get("error").is_none_or(Value::is_null) {
        return None;
    }
    Remedy::of_body(None, response.to_string().as_bytes())
}

/// Makes a message from the fields that can be read, each by itself, and from those that [`Message`] has parsed. All
/// other fields are lost.
fn from_readable_fields(message: &Message) -> Value {
    let mut readable = Map::new();
    for (name, json) in message.fields().unwrap_or_default() {
        if let Some(value) = serde_json::from_str(json.get()).ok().or_else(|| parsed(message, &name, json)) {
            readable.insert(name, value);
        }
    }
    Value::Object(readable)
}

/// Returns the value of a field that cannot be read, from those that the message has parsed.
fn parsed(message: &Message, name: &str, json: &RawValue) -> Option<Value> {
    match name {
        "role" => Some(message.role().as_str().into()),
        "content" => Some(message.text().into()),
        "name" => message.name().map(Value::from),
        "tool_call_id" => message.tool_call_id().map(Value::from),
        "tool_calls" => Some(calls(message, json)),
        "reasoning_content" => text(json.get()).map(Value::from),
        _ => None,
    }
}

/// Returns the calls. Those that can be read stay as they are.
fn calls(message: &Message, json: &RawValue) -> Value {
    let entries = raw_entries(json.get()).unwrap_or_default();
    let calls = message.tool_calls();
    if entries.len() != calls.len() {
        return calls.iter().map(call).collect();
    }
    let mut list = Vec::with_capacity(calls.len());
    for (entry, parsed) in entries.iter().zip(calls) {
        list.push(serde_json::from_str(entry.get()).unwrap_or_else(|_| call(parsed)));
    }
    Value::Array(list)
}

fn call(call: &ToolCall) -> Value {
    if call.is_custom() {
        json!({"id": call.id(), "type": "custom", "custom": {"name": call.name(), "input": call.arguments()}})
    } else {
        json!({"id": call.id(), "type": "function", "function": {"name": call.name(), "arguments": call.arguments()}})
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::ConversationId;

    use super::*;
    use crate::call::InConversation;

    async fn opened(adapter: &Json, request: Value) -> RequestInfo {
        let call = InConversation::new(ConversationId::new(["tests"]).unwrap(), request);
        let OpenedRequest::Turn(turn, _) = adapter.open(call).await.unwrap() else { panic!("not a turn") };
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
        let OpenedRequest::Turn(turn, _) = adapter.open(json!({"messages": []})).await.unwrap() else {
            panic!("not a turn")
        };
        assert_eq!(turn.request.provider, Some("groq"));
    }

    #[test]
    fn an_unreadable_message_keeps_its_text_and_tool_calls() {
        let json = r#"{"role":"assistant","content":"a \ud800 b","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
        assert!(serde_json::from_str::<Value>(json).is_err());
        let message = Message::from_json(json).unwrap();
        assert_eq!(
            from_readable_fields(&message),
            json!({"role": "assistant", "content": message.text(), "tool_calls":
                [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
        );
        let result = from_readable_fields(&Message::tool("x", "1"));
        assert_eq!(result, json!({"role": "tool", "content": "1", "tool_call_id": "x"}));
    }

    #[test]
    fn an_unreadable_message_keeps_the_fields_that_can_be_read() {
        let signed = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "s"}}});
        let message = |reasoning: &str| {
            let other = r#"{"id":"y","function":{"name":"g","arguments":"\ud800"},"x":1}"#;
            let json = format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{signed},{other}],"x":1e999,"reasoning_content":{reasoning}}}"#
            );
            from_readable_fields(&Message::from_json(json).unwrap())
        };
        let other = json!({"id": "y", "type": "function", "function": {"name": "g", "arguments": "\u{fffd}"}});
        let expected = |reasoning: &str| json!({"role": "assistant", "content": null, "tool_calls": [signed, other], "reasoning_content": reasoning});
        assert_eq!(message("\"\""), expected(""));
        assert_eq!(message(r#""a \ud800""#), expected("a \u{fffd}"));
    }

    #[test]
    fn reasoning_content_is_that_of_its_own_field() {
        let json = r#"{"role":"assistant","content":"b","reasoning_content":"a \ud800",
            "thinking_blocks":[{"type":"thinking","thinking":"c","signature":"s"}]}"#;
        let value = from_readable_fields(&Message::from_json(json).unwrap());
        assert_eq!(value["reasoning_content"], "a \u{fffd}");
        let json = r#"{"role":"assistant","content":"b","reasoning":"c","reasoning_content":{"steps":1e999}}"#;
        let value = from_readable_fields(&Message::from_json(json).unwrap());
        assert_eq!(value, json!({"role": "assistant", "content": "b", "reasoning": "c"}));
    }
}

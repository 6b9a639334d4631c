//! Conversion from messages of the log to async-openai's request messages.
//!
//! The conversion does not use serde: every call converts its window, and serde would take ten times as long. Parts
//! that the types cannot carry are left out, and the message is counted as downgraded. `docs/types.md` lists them.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use async_openai::types::chat::{
    ChatCompletionMessageCustomToolCall, ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestAssistantMessageAudio,
    ChatCompletionRequestAssistantMessageContent, ChatCompletionRequestDeveloperMessage,
    ChatCompletionRequestDeveloperMessageContent, ChatCompletionRequestFunctionMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestSystemMessageContent, ChatCompletionRequestToolMessage,
    ChatCompletionRequestToolMessageContent, ChatCompletionRequestUserMessage, ChatCompletionRequestUserMessageContent,
    CustomTool, FunctionCall,
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::value::RawValue;
use tower_chat_history::{
    Message, Role,
    store::{Content, ToolCall},
};

/// The result of [`to_request_messages`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Converted {
    /// The messages, in order. A message that the types cannot carry at all is left out.
    pub messages: Vec<ChatCompletionRequestMessage>,
    /// The number of the log's messages that are incomplete or left out. The page [types](crate::guide::types)
    /// lists the parts that the types cannot carry.
    pub downgraded: usize,
}

/// Converts messages of a log to async-openai's types.
///
/// The conversion never fails. Parts that the types cannot carry are left out, and [`Converted::downgraded`] is the
/// number of messages that have such parts.
///
/// ```
/// use tower_chat_history::Message;
/// use tower_chat_history_openai::to_request_messages;
///
/// let reply = r#"{"role":"assistant","content":"Hello!","reasoning_content":"…"}"#;
/// let log = [Message::user("Hi"), Message::from_json(reply)?];
/// let converted = to_request_messages(&log);
/// assert_eq!((converted.messages.len(), converted.downgraded), (2, 1));
/// # Ok::<(), tower_chat_history::store::MessageError>(())
/// ```
pub fn to_request_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Converted {
    let mut all = Converted::default();
    for message in messages {
        let one = request_message(message);
        all.downgraded += usize::from(one.downgraded);
        all.messages.extend(one.message);
    }
    all
}

/// A message of a request.
pub(crate) struct TypedMessage {
    /// The message, or `None` if the types cannot carry any part of it: its role is unknown, or it is a reply without a
    /// known part.
    pub(crate) message: Option<ChatCompletionRequestMessage>,
    /// True if a part of the message was left out.
    pub(crate) downgraded: bool,
}

pub(crate) fn request_message(message: &Message) -> TypedMessage {
    let mut is_lossless = !message.has_unknown_fields();
    let lossless = &mut is_lossless;
    let name = message.name().map(str::to_owned);

    let typed = match message.role() {
        Role::User => ChatCompletionRequestUserMessage {
            content: match parts(message, lossless) {
                Parts::None => ChatCompletionRequestUserMessageContent::Text(String::new()),
                Parts::Text(text) => ChatCompletionRequestUserMessageContent::Text(text),
                Parts::Array(parts) => ChatCompletionRequestUserMessageContent::Array(parts),
            },
            name,
        }
        .into(),
        Role::Assistant => {
            let assistant = assistant(message, name, lossless);
            // Providers refuse a blank reply, and no part of this one can be sent.
            if is_blank(&assistant) {
                return TypedMessage { message: None, downgraded: true };
            }
            assistant.into()
        }
        Role::Tool => {
            // The types have no field for the name of a tool message.
            *lossless &= name.is_none();
            ChatCompletionRequestToolMessage {
                content: match parts(message, lossless) {
                    Parts::None => ChatCompletionRequestToolMessageContent::Text(String::new()),
                    Parts::Text(text) => ChatCompletionRequestToolMessageContent::Text(text),
                    Parts::Array(parts) => ChatCompletionRequestToolMessageContent::Array(parts),
                },
                tool_call_id: message.tool_call_id().unwrap_or_default().to_owned(),
            }
            .into()
        }
        Role::System => ChatCompletionRequestSystemMessage {
            content: match parts(message, lossless) {
                Parts::None => ChatCompletionRequestSystemMessageContent::Text(String::new()),
                Parts::Text(text) => ChatCompletionRequestSystemMessageContent::Text(text),
                Parts::Array(parts) => ChatCompletionRequestSystemMessageContent::Array(parts),
            },
            name,
        }
        .into(),
        Role::Developer => ChatCompletionRequestDeveloperMessage {
            content: match parts(message, lossless) {
                Parts::None => ChatCompletionRequestDeveloperMessageContent::Text(String::new()),
                Parts::Text(text) => ChatCompletionRequestDeveloperMessageContent::Text(text),
                Parts::Array(parts) => ChatCompletionRequestDeveloperMessageContent::Array(parts),
            },
            name,
        }
        .into(),
        Role::Function => ChatCompletionRequestFunctionMessage {
            content: match message.content() {
                Content::None => None,
                Content::Text(text) => Some(text.into_owned()),
                // Here the types know only text.
                Content::Other(json) => {
                    *lossless = false;
                    Some(json.to_owned())
                }
                _ => {
                    *lossless = false;
                    Some(message.text().into_owned())
                }
            },
            name: name.unwrap_or_default(),
        }
        .into(),
        _ => return TypedMessage { message: None, downgraded: true },
    };

    TypedMessage { message: Some(typed), downgraded: !is_lossless }
}

/// Fields that some providers require in later requests, together with the tool calls that they came with.
///
/// Two other fields with reasoning are not required. `reasoning` repeats the text of another field. In
/// `provider_specific_fields`, LiteLLM only has copies, and a signature that the id of the call has, too.
const REASONING: [&str; 4] =
    ["\"reasoning_content\"", "\"reasoning_details\"", "\"extra_content\"", "\"thinking_blocks\""];

/// Warns once per process that tool calls are sent without the provider's reasoning, which some providers refuse.
pub(crate) fn warn_of_lost_reasoning(message: &Message) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if loses_reasoning(message) && !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "tool calls are sent without the reasoning or signature that came with them, because async-openai's types \
             cannot carry it; some providers refuse such requests: use the client integration (feature `client`)"
        );
    }
}

/// Returns `true` if a downgraded message has tool calls and one of these fields. It searches the JSON for the name in
/// quotes that are not escaped. This can only be a key, or a string that equals the name. In the second case the
/// warning is wrong, which is harmless.
fn loses_reasoning(message: &Message) -> bool {
    !message.tool_calls().is_empty() && REASONING.iter().any(|name| message.json().contains(name))
}

#[allow(deprecated)] // `function_call` is deprecated, but logs contain it.
fn assistant(message: &Message, name: Option<String>, lossless: &mut bool) -> ChatCompletionRequestAssistantMessage {
    let calls: Vec<_> = message.tool_calls().iter().map(tool_call).collect();
    let extras = extras(message);
    let refusal = field(extras.refusal, lossless);
    let audio: Option<Audio> = field(extras.audio, lossless);
    let function_call = field(extras.function_call, lossless);
    *lossless &= !audio.as_ref().is_some_and(Audio::has_more);
    ChatCompletionRequestAssistantMessage {
        content: match parts(message, lossless) {
            Parts::None => None,
            Parts::Text(text) => Some(ChatCompletionRequestAssistantMessageContent::Text(text)),
            Parts::Array(parts) => Some(ChatCompletionRequestAssistantMessageContent::Array(parts)),
        },
        refusal,
        name,
        audio: audio.map(|audio| ChatCompletionRequestAssistantMessageAudio { id: audio.id }),
        tool_calls: (!calls.is_empty()).then_some(calls),
        function_call,
    }
}

#[allow(deprecated)] // `function_call` is deprecated, but logs contain it.
fn is_blank(assistant: &ChatCompletionRequestAssistantMessage) -> bool {
    let has_content = match &assistant.content {
        None => false,
        Some(ChatCompletionRequestAssistantMessageContent::Text(text)) => !text.is_empty(),
        Some(ChatCompletionRequestAssistantMessageContent::Array(parts)) => !parts.is_empty(),
    };
    let has_refusal = assistant.refusal.as_ref().is_some_and(|refusal| !refusal.is_empty());
    let has_calls = assistant.tool_calls.is_some() || assistant.function_call.is_some();
    !(has_content || has_refusal || has_calls || assistant.audio.is_some())
}

pub(crate) fn tool_call(call: &ToolCall) -> ChatCompletionMessageToolCalls {
    let id = call.id().to_owned();
    let name = call.name().to_owned();
    let text = call.arguments().to_owned();

    if call.is_custom() {
        let custom_tool = CustomTool { name, input: text };
        ChatCompletionMessageToolCalls::Custom(ChatCompletionMessageCustomToolCall { id, custom_tool })
    } else {
        let function = FunctionCall { name, arguments: text };
        ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall { id, function })
    }
}

/// The content of a message, with the parts that the types of its role know.
enum Parts<P> {
    None,
    Text(String),
    Array(Vec<P>),
}

fn parts<P: DeserializeOwned + Serialize>(message: &Message, lossless: &mut bool) -> Parts<P> {
    match message.content() {
        Content::None => Parts::None,
        Content::Text(text) => Parts::Text(text.into_owned()),
        Content::Parts(parts) => {
            let known: Vec<P> = parts.iter().filter_map(|part| known_part(part, lossless)).collect();
            // Providers refuse an empty list.
            if known.is_empty() { Parts::Text(String::new()) } else { Parts::Array(known) }
        }
        Content::Other(json) => {
            *lossless = false;
            Parts::Text(json.to_owned())
        }
        _ => {
            *lossless = false;
            Parts::Text(message.text().into_owned())
        }
    }
}

/// Returns a part in async-openai's type, if the type knows it.
fn known_part<P: DeserializeOwned + Serialize>(part: &str, lossless: &mut bool) -> Option<P> {
    let known: Option<P> = serde_json::from_str(part).ok();
    // The type may know only some of the part's fields. It does not know `cache_control`, for example.
    let carried = known.as_ref().and_then(|known| serde_json::to_value(known).ok());
    *lossless &= carried.is_some() && carried == serde_json::from_str(part).ok();
    known
}

/// Fields that only few assistant messages have.
#[derive(Default, Deserialize)]
struct Extras<'a> {
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

/// Returns a field, if the types can carry it.
fn field<T: DeserializeOwned>(json: Option<&RawValue>, lossless: &mut bool) -> Option<T> {
    let value = serde_json::from_str(json?.get()).ok();
    *lossless &= value.is_some();
    value
}

#[derive(Deserialize)]
struct Audio {
    id: String,
    data: Option<IgnoredAny>,
    transcript: Option<IgnoredAny>,
}

impl Audio {
    /// Returns `true` if it is the audio of a reply, of which a request may contain only the id.
    const fn has_more(&self) -> bool {
        self.data.is_some() || self.transcript.is_some()
    }
}

fn extras(message: &Message) -> Extras<'_> {
    // This avoids parsing the message: nearly all messages have none of the three fields.
    if !message.has_refusal_audio_or_function_call() {
        return Extras::default();
    }
    serde_json::from_str(message.json()).unwrap_or_default()
}

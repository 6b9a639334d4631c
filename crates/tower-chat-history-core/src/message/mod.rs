//! Messages: verbatim JSON with an index that is built once.

mod content;
mod counted;
mod field;
mod foreign;
mod index;
mod lossy;
mod memory;
mod role;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

pub use self::{content::Content, foreign::ForeignShape, index::ToolCall, role::Role};
use self::{counted::Counted, index::Index};
use crate::nested;

/// One chat message, stored as the JSON it was created from.
///
/// Everything in the JSON is preserved: unknown fields, unknown content parts, the order of keys, the spelling of
/// numbers. [`json`](Self::json) returns exactly the bytes that [`from_json`](Self::from_json) was given (without
/// surrounding white space), and `Serialize` writes the same bytes. An index has the properties that history needs:
/// the role, the name, the tool calls, and the call that a result answers. Arguments of tool calls are opaque text,
/// even if they are not JSON.
///
/// Cloning only increments a reference count. Two messages are equal if their JSON has the same bytes. `Debug`
/// shows sizes, not text.
///
/// ```
/// use tower_chat_history_core::{Message, Role};
///
/// let json = r#"{ "role": "assistant", "content": "Hi", "reasoning_content": "a greeting" }"#;
/// let message = Message::from_json(json)?;
/// assert_eq!(message.role(), &Role::Assistant);
/// assert_eq!(message.text(), "Hi");
/// assert_eq!(message.json(), json);
/// # Ok::<(), tower_chat_history_core::MessageError>(())
/// ```
#[derive(Clone)]
pub struct Message(Arc<Parsed>);

struct Parsed {
    json: Box<RawValue>,
    index: Index,
    counted: Counted,
}

impl Message {
    /// Creates the message with this JSON, which is stored verbatim.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object with a string `role`.
    pub fn from_json(json: impl Into<String>) -> Result<Self, MessageError> {
        Self::from_raw(RawValue::from_string(json.into()).map_err(MessageError::from_json)?)
    }

    /// Creates the message that a value, such as a provider's typed message, serializes to.
    ///
    /// # Errors
    ///
    /// Returns an error if the value does not serialize to a JSON object with a string `role`, or if it has more
    /// than [128 levels](nested::MAX_LEVELS) of lists and objects.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, MessageError> {
        Self::from_json(nested::to_string(value).map_err(MessageError::from_json)?)
    }

    fn new(json: Box<RawValue>, index: Index) -> Self {
        Self(Arc::new(Parsed { json, index, counted: Counted::default() }))
    }

    fn from_raw(json: Box<RawValue>) -> Result<Self, MessageError> {
        let index = Index::parse(&json)?;
        Ok(Self::new(json, index))
    }

    /// Creates a user message with this text.
    #[must_use]
    pub fn user(text: impl AsRef<str>) -> Self {
        Self::with_content(Role::User, text.as_ref())
    }

    /// Creates an assistant message with this text.
    #[must_use]
    pub fn assistant(text: impl AsRef<str>) -> Self {
        Self::with_content(Role::Assistant, text.as_ref())
    }

    /// Creates a system message with this text.
    #[must_use]
    pub fn system(text: impl AsRef<str>) -> Self {
        Self::with_content(Role::System, text.as_ref())
    }

    /// Creates a developer message with this text.
    #[must_use]
    pub fn developer(text: impl AsRef<str>) -> Self {
        Self::with_content(Role::Developer, text.as_ref())
    }

    /// Creates the result of the tool call with this id.
    #[must_use]
    pub fn tool(call_id: impl AsRef<str>, text: impl AsRef<str>) -> Self {
        let (id, text) = (call_id.as_ref(), text.as_ref());
        let json = format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, Value::from(id), Value::from(text));
        Self::from_known(json, Index::tool(id, text))
    }

    fn with_content(role: Role, text: &str) -> Self {
        let json = format!(r#"{{"role":"{role}","content":{}}}"#, Value::from(text));
        Self::from_known(json, Index::plain(role, text))
    }

    /// Creates a message from JSON that this crate wrote itself, so that its index is already known.
    fn from_known(json: String, index: Index) -> Self {
        // serde_json wrote the text, so this cannot fail. If it did, the message's JSON would be `null`.
        let json = RawValue::from_string(json).unwrap_or_default();
        Self::new(json, index)
    }

    /// Returns the JSON, exactly as it was given.
    #[must_use]
    pub fn json(&self) -> &str {
        self.0.json.get()
    }

    /// Returns the size of the JSON in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.json().len()
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.0.index.role
    }

    /// Returns the participant's name, if the message has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.index.name.as_deref()
    }

    /// Returns the calls of an assistant message, in order. For all other messages, the list is empty.
    ///
    /// Entries of `tool_calls` that no result can answer are left out: those that are not objects, have no id (or
    /// an empty one, or one that is not a string), or name neither a function nor a custom tool.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        &self.0.index.tool_calls
    }

    /// Returns the id of the call that a tool message answers. `None` if it has none, or if the id is not a string.
    #[must_use]
    pub fn tool_call_id(&self) -> Option<&str> {
        self.0.index.tool_call_id.as_deref()
    }

    /// Returns `true` if this is the result of a tool call.
    #[must_use]
    pub fn is_tool_result(&self) -> bool {
        *self.role() == Role::Tool
    }

    /// Returns `true` if this is an instruction (a system or developer message).
    #[must_use]
    pub fn is_instruction(&self) -> bool {
        matches!(self.role(), Role::System | Role::Developer)
    }

    /// Returns `true` if this is an assistant message that has no text, no parts, no refusal, no audio and no calls.
    ///
    /// Providers refuse such a message when it is sent back to them.
    #[must_use]
    pub fn is_blank_reply(&self) -> bool {
        self.0.index.blank_reply
    }

    /// Returns `true` if the message, or one of its tool calls, has fields that the chat-completions format does
    /// not define for requests.
    ///
    /// Typed clients drop such fields (`reasoning_content`, `cache_control`, the `annotations` of a reply, a call's
    /// signature), but the log preserves them. Content parts are not examined.
    #[must_use]
    pub fn has_unknown_fields(&self) -> bool {
        self.0.index.unknown_fields
    }

    /// Returns `true` if `refusal`, `audio` or `function_call` has content, which is rare in replies.
    #[must_use]
    pub fn has_refusal_audio_or_function_call(&self) -> bool {
        self.0.index.refusal_audio_or_function_call
    }

    /// Returns this message in a form that providers accept: without the entries of `tool_calls` that are not
    /// [calls](Self::tool_calls), and without the field if no call is left.
    ///
    /// All other messages are returned unchanged. The result depends only on this message.
    #[must_use]
    pub fn sendable(&self) -> Cow<'_, Self> {
        if !self.0.index.unsound_tool_calls {
            return Cow::Borrowed(self);
        }
        self.with_sound_calls().map_or(Cow::Borrowed(self), Cow::Owned)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Message");
        out.field("role", self.role()).field("bytes", &self.bytes());
        if !self.tool_calls().is_empty() {
            out.field("tool_calls", &self.tool_calls().len());
        }
        out.finish_non_exhaustive()
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.json() == other.json()
    }
}

impl Eq for Message {}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Reads the message verbatim. This works only with `serde_json`, like `RawValue`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Value> for Message {
    type Error = MessageError;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let message = Self::from_serialize(&value);
        // The value may have any number of levels.
        nested::dismantle(value);
        message
    }
}

/// The error for a JSON text that is not a chat message. It never quotes the text.
#[derive(Debug, thiserror::Error)]
#[error("invalid chat message: {reason} (line {line}, column {column})")]
pub struct MessageError {
    reason: &'static str,
    line: usize,
    column: usize,
}

impl MessageError {
    // serde_json's own messages may quote the input, which is private.
    #[allow(clippy::needless_pass_by_value)]
    fn from_json(error: serde_json::Error) -> Self {
        use serde_json::error::Category::{Data, Eof, Io, Syntax};
        let reason = match error.classify() {
            Data => "expected an object with a string `role`",
            Eof => "the JSON ends too early",
            Syntax => "the JSON is malformed",
            // Only the limit on levels causes an error of this category.
            Io => "the JSON has more than 128 levels",
        };
        Self { reason, line: error.line(), column: error.column() }
    }
}

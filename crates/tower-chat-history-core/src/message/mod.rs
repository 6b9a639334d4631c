//! Messages: verbatim JSON with an index that is built once.

mod counted;
pub(crate) mod dialect;
mod error;
mod field;
mod indexed;
mod memory;
mod part_kinds;
#[cfg(test)]
mod tests;
mod text;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

pub(crate) use self::dialect::Place;
pub use self::dialect::{
    AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Content, Dialect, DialectName, DialectNameError,
    Expressed, ForeignShape, Index, LeftOut, Media, OpenAiResponses, Part, Source, Space, StatedCall, StatedContent,
    StatedId, Statement, ToolCall,
};
use self::{
    counted::Counted,
    dialect::{plain_index, plain_json, tool_index, tool_json},
    indexed::{Indexed, LazyIndex},
};
pub use self::{error::MessageError, part_kinds::PartKinds};
use crate::{digest::Digest, nested, role::Role};

/// One element of a conversation, stored as the JSON it was created from: a chat message, or an element of another
/// [dialect](Dialect).
///
/// Everything in the JSON is preserved: unknown fields, unknown content parts, the order of keys, the spelling of
/// numbers. [`json`](Self::json) returns exactly the bytes that [`from_json`](Self::from_json) was given (without
/// surrounding white space), and `Serialize` writes the same bytes. An [index](Self::index) has the properties that
/// history needs: the role, the tool calls, and the calls that a result answers. Arguments of tool calls are opaque
/// text, even if they are not JSON.
///
/// The constructors make messages of [chat completions](ChatCompletions), except [`in_dialect`](Self::in_dialect) and
/// [`compose`](Self::compose).
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
    indexed: LazyIndex,
    counted: Counted,
    part_kinds: OnceLock<PartKinds>,
    digest: OnceLock<Digest>,
    /// The message without what is bound to a prompt or an origin. `None` if nothing is left.
    unbound: OnceLock<Option<Message>>,
    /// The message without what is bound to a prompt. `None` if nothing is left.
    unbound_from_prompt: OnceLock<Option<Message>>,
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

    /// Creates the element of a dialect with this JSON, which is stored verbatim.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, or not an element of this dialect.
    pub fn in_dialect(dialect: &'static dyn Dialect, json: impl Into<String>) -> Result<Self, MessageError> {
        Self::from_raw_in(dialect, RawValue::from_string(json.into()).map_err(MessageError::from_json)?)
    }

    /// Creates the element of a dialect with this JSON, which is stored verbatim. Unlike
    /// [`in_dialect`](Self::in_dialect), it does not check again that the text is JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not an element of this dialect.
    pub fn in_dialect_raw(dialect: &'static dyn Dialect, json: &RawValue) -> Result<Self, MessageError> {
        Self::from_raw_in(dialect, json.to_owned())
    }

    /// Creates the message of a dialect that says this text in this role: `User`, `Assistant` or `System`. If the
    /// dialect allows no system message within a list, the result is a user message.
    ///
    /// # Errors
    ///
    /// Returns an error if the dialect cannot read its own message.
    pub fn compose(dialect: &'static dyn Dialect, role: &Role, text: impl AsRef<str>) -> Result<Self, MessageError> {
        Self::in_dialect(dialect, dialect.compose(role, text.as_ref()))
    }

    fn new(json: Box<RawValue>, dialect: &'static dyn Dialect, index: Index) -> Self {
        Self::with_index(json, LazyIndex::Read(Indexed { dialect, index }))
    }

    /// Creates a message of an unknown dialect.
    pub(crate) fn unread(json: Box<RawValue>) -> Self {
        Self::with_index(json, LazyIndex::ReadLater(OnceLock::new()))
    }

    fn with_index(json: Box<RawValue>, indexed: LazyIndex) -> Self {
        Self(Arc::new(Parsed {
            json,
            indexed,
            counted: Counted::default(),
            part_kinds: OnceLock::new(),
            digest: OnceLock::new(),
            unbound: OnceLock::new(),
            unbound_from_prompt: OnceLock::new(),
        }))
    }

    pub(crate) fn from_raw_in(dialect: &'static dyn Dialect, json: Box<RawValue>) -> Result<Self, MessageError> {
        let index = dialect.index(json.get())?;
        Ok(Self::new(json, dialect, index))
    }

    fn from_raw(json: Box<RawValue>) -> Result<Self, MessageError> {
        Self::from_raw_in(&ChatCompletions, json)
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
        Self::from_known(tool_json(id, text), tool_index(id, text))
    }

    fn with_content(role: Role, text: &str) -> Self {
        Self::from_known(plain_json(&role, text), plain_index(role, text))
    }

    /// Creates a message from JSON that this crate wrote itself, so that its index is already known.
    fn from_known(json: String, index: Index) -> Self {
        // serde_json wrote the text, so this cannot fail. If it did, the message's JSON would be `null`.
        let json = RawValue::from_string(json).unwrap_or_default();
        Self::new(json, &ChatCompletions, index)
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

    /// Returns the dialect, or `None` if the message was stored in a dialect that has not [read](Self::read_in) it yet.
    #[inline]
    #[must_use]
    pub fn dialect(&self) -> Option<&'static dyn Dialect> {
        self.0.indexed.get().map(|indexed| indexed.dialect)
    }

    /// Reads the index if the message has none yet, because it was stored in a dialect that this crate does not have.
    /// All clones share the index.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is not an element of this dialect.
    #[inline]
    pub fn read_in(&self, dialect: &'static dyn Dialect) -> Result<(), MessageError> {
        if self.0.indexed.get().is_some() { Ok(()) } else { self.read_now(dialect) }
    }

    fn read_now(&self, dialect: &'static dyn Dialect) -> Result<(), MessageError> {
        self.0.indexed.set(dialect, dialect.index(self.json())?);
        Ok(())
    }

    /// Returns the properties that history needs. As long as the [dialect](Self::dialect) is not known, they are
    /// those of a message in an unknown role.
    #[inline]
    #[must_use]
    pub fn index(&self) -> &Index {
        match self.0.indexed.get() {
            Some(indexed) => &indexed.index,
            None => Index::unknown(),
        }
    }

    /// Calls `visit` with each part of the message, in order. Does nothing as long as the [dialect](Self::dialect) is
    /// not known.
    pub fn parts<'m>(&'m self, visit: &mut dyn FnMut(Part<'m>)) {
        if let Some(dialect) = self.dialect() {
            dialect.parts(self, visit);
        }
    }

    /// Returns the role.
    #[inline]
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.index().role
    }

    /// Returns the participant's name, if this is a message of chat completions and has one. In all dialects, the name
    /// is a [part](Self::parts).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.index().chat.name.as_deref()
    }

    /// Returns the calls that wait for a result after this message, in order.
    ///
    /// Entries of `tool_calls` that no result can answer are left out: those that are not objects, have no id (or
    /// an empty one, or one that is not a string), or name neither a function nor a custom tool.
    #[inline]
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        &self.index().opens
    }

    /// Returns the ids of the calls that the message answers, in order.
    #[inline]
    #[must_use]
    pub fn answers(&self) -> &[CallId] {
        &self.index().answers
    }

    /// Returns the id of the first call that the message answers. `None` if it answers none.
    #[must_use]
    pub fn tool_call_id(&self) -> Option<&str> {
        self.answers().first().map(CallId::as_str)
    }

    /// Returns `true` if the message has nothing but results of tool calls.
    #[inline]
    #[must_use]
    pub fn is_tool_result(&self) -> bool {
        *self.role() == Role::Tool
    }

    /// Returns `true` if this is an instruction (a system or developer message).
    #[must_use]
    pub fn is_instruction(&self) -> bool {
        matches!(self.role(), Role::System | Role::Developer)
    }

    /// Returns `true` if this is an element of the model's reply.
    #[inline]
    #[must_use]
    pub fn is_reply(&self) -> bool {
        *self.role() == Role::Assistant
    }

    /// Returns `true` if this is an element of a reply that has several, in dialects with such replies.
    pub(crate) fn joins_reply(&self) -> bool {
        self.is_reply() && self.index().closes == Closes::AfterResult
    }

    /// Returns `true` if the message has results of tool calls.
    pub(crate) fn has_results(&self) -> bool {
        !self.answers().is_empty()
    }

    /// Returns `true` if the message says nothing. In chat completions, this is an assistant message that has no
    /// text, no parts, no refusal, no audio and no calls.
    ///
    /// Providers refuse such a message when it is sent back to them.
    #[inline]
    #[must_use]
    pub fn is_blank_reply(&self) -> bool {
        self.index().says_nothing
    }

    /// Returns the conditions under which the message may be sent again as it is.
    #[inline]
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.index().bound
    }

    /// Returns `true` if the message, or one of its tool calls, has fields that the chat-completions format does
    /// not define for requests.
    ///
    /// Typed clients drop such fields (`reasoning_content`, `cache_control`, the `annotations` of a reply, a call's
    /// signature), but the log preserves them. Content parts are not examined.
    #[must_use]
    pub fn has_unknown_fields(&self) -> bool {
        self.index().chat.has_unknown_fields
    }

    /// Returns `true` if `refusal`, `audio` or `function_call` has content, which is rare in replies.
    #[must_use]
    pub fn has_refusal_audio_or_function_call(&self) -> bool {
        self.index().chat.has_refusal_audio_or_function_call
    }

    /// Returns this message in a form that providers accept. For chat completions, this is the message without the
    /// entries of `tool_calls` that are not [calls](Self::tool_calls), and without the field if no call is left.
    ///
    /// All other messages are returned unchanged. The result depends only on this message.
    #[must_use]
    pub fn sendable(&self) -> Cow<'_, Self> {
        if !self.index().is_rewritten {
            return Cow::Borrowed(self);
        }
        self.changed(|dialect| Some(dialect.sendable(self))).map_or(Cow::Borrowed(self), Cow::Owned)
    }

    /// Returns this message without everything that is [bound](Self::bound) to a prompt or an origin, or `None` if
    /// nothing is left. The result is computed once.
    #[must_use]
    pub fn unbound(&self) -> Option<&Self> {
        if !self.bound().can_be_removed() {
            return Some(self);
        }
        self.0.unbound.get_or_init(|| self.changed(|dialect| dialect.unbound(self))).as_ref()
    }

    /// Returns this message without everything that is [bound](Self::bound) to its prompt, or `None` if nothing is left.
    /// Parts that are bound only to their origin stay. The result is computed once.
    #[must_use]
    pub fn unbound_from_prompt(&self) -> Option<&Self> {
        if !self.bound().to_prefix {
            return Some(self);
        }
        let unbound = || self.changed(|dialect| dialect.unbound_from_prompt(self));
        self.0.unbound_from_prompt.get_or_init(unbound).as_ref()
    }

    /// Returns this message with only the results of these calls, or `None` if nothing is left.
    #[must_use]
    pub fn answering(&self, kept: &[CallId]) -> Option<Self> {
        self.changed(|dialect| dialect.answering(self, kept))
    }

    /// Returns this message with only these of the calls that the provider executes itself, and only these of their
    /// results, or `None` if nothing is left. See [`Dialect::settled`].
    #[must_use]
    pub fn settled(&self, calls: &[CallId], results: &[CallId]) -> Option<Self> {
        self.changed(|dialect| dialect.settled(self, calls, results))
    }

    /// Returns this message with `placeholder` in place of the text of the results for which `clears` returns `true`,
    /// or `None` if there are none.
    #[must_use]
    pub fn cleared(&self, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<Self> {
        self.changed(|dialect| dialect.cleared(self, clears, placeholder))
    }

    /// Returns the digest of the properties that providers compare when they check a signature. It is computed once.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| match self.dialect() {
            Some(dialect) => dialect.digest(self.json()),
            None => Digest::of(self.json().as_bytes()),
        })
    }

    /// Returns the message that the dialect makes of this one.
    fn changed(&self, change: impl FnOnce(&'static dyn Dialect) -> Option<String>) -> Option<Self> {
        let dialect = self.dialect()?;
        // A dialect reads what it writes. If it does not, the part is left out.
        Self::in_dialect(dialect, change(dialect)?).ok()
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

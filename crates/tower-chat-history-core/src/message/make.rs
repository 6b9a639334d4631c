//! Making messages.

use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::{Value, value::RawValue};

use super::{
    ChatCompletions, Counted, Dialect, Index, Indexed, LazyIndex, Message, MessageError, Parsed, Role,
    dialect::{plain_index, plain_index_at_start, plain_json, tool_index, tool_json},
    index_in,
};
use crate::nested;

impl Message {
    /// Creates the message with this JSON, which is stored verbatim.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object with a string `role`.
    pub fn from_json(json: impl Into<String>) -> Result<Self, MessageError> {
        Self::in_dialect(&ChatCompletions, json)
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
        let json = RawValue::from_string(json.into()).map_err(MessageError::from_json)?;
        Self::in_dialect_unchecked(dialect, json.into())
    }

    /// Creates the element of a dialect with this JSON, which is stored verbatim. Unlike
    /// [`in_dialect`](Self::in_dialect), it does not check again that the text is JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not an element of this dialect.
    pub fn in_dialect_raw(dialect: &'static dyn Dialect, json: Box<RawValue>) -> Result<Self, MessageError> {
        Self::in_dialect_unchecked(dialect, json.into())
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

    fn new(json: Box<str>, dialect: &'static dyn Dialect, index: Index) -> Self {
        Self::with_index(json, LazyIndex::Read(Indexed::new(dialect, index)))
    }

    /// Creates a message of an unknown dialect. The caller knows that the text is JSON without white space around it.
    pub(crate) fn unread(json: Box<str>) -> Self {
        Self::with_index(json, LazyIndex::ReadLater(OnceLock::new()))
    }

    fn with_index(json: Box<str>, indexed: LazyIndex) -> Self {
        Self(Arc::new(Parsed {
            json,
            indexed,
            counted: Counted::default(),
            part_kinds: OnceLock::new(),
            digest: OnceLock::new(),
            unbound: OnceLock::new(),
            unbound_from_prompt: OnceLock::new(),
            without_reasoning: OnceLock::new(),
            adapted: Mutex::new(None),
        }))
    }

    /// Creates the element of a dialect. The caller knows that the text is JSON without white space around it.
    pub(crate) fn in_dialect_unchecked(dialect: &'static dyn Dialect, json: Box<str>) -> Result<Self, MessageError> {
        let index = index_in(dialect, &json)?;
        Ok(Self::new(json, dialect, index))
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
        let id = call_id.as_ref();
        let json = tool_json(id, text.as_ref());
        let index = tool_index(id, &json);
        Self::from_known(json, index)
    }

    fn with_content(role: Role, text: &str) -> Self {
        let json = plain_json(&role, text);
        let index = plain_index(role, &json);
        Self::from_known(json, index)
    }

    /// Creates a message from JSON that this crate wrote itself, so that its index is already known.
    fn from_known(json: String, index: Index) -> Self {
        Self::new(json.into(), &ChatCompletions, index)
    }

    /// Reads a plain message of chat completions at the beginning of a text: one as [`user`](Self::user),
    /// [`assistant`](Self::assistant) or [`system`](Self::system) creates it, or the usual form of a reply. Returns the
    /// message and the rest of the text. Returns `None` if the text begins with anything else, or with a message whose
    /// text has a `\u`.
    pub(crate) fn plain_at_start(text: &str) -> Option<(Self, &str)> {
        let (index, len) = plain_index_at_start(text)?;
        let (json, rest) = text.split_at(len);
        Some((Self::new(json.into(), &ChatCompletions, index), rest))
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `RawValue` is the only type that serde_json writes verbatim. It checks the text.
        let json: &RawValue = serde_json::from_str(self.json()).map_err(S::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Reads the message verbatim. This works only with `serde_json`, like `RawValue`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json: Box<RawValue> = Box::deserialize(deserializer)?;
        Self::in_dialect_unchecked(&ChatCompletions, json.into()).map_err(serde::de::Error::custom)
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

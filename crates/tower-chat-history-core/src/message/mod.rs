//! Messages: verbatim JSON with an index that is built once.

mod change;
mod counted;
pub(crate) mod dialect;
mod error;
mod field;
mod indexed;
mod json;
mod make;
mod memory;
mod part_kinds;
#[cfg(test)]
mod repeated_fields_tests;
#[cfg(test)]
mod tests;
mod text;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

pub(crate) use self::dialect::Place;
pub use self::dialect::{
    AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Content, Dialect, DialectName, DialectNameError,
    Expressed, ForeignShape, Index, LeftOut, Media, OpenAiResponses, Part, Source, Space, StatedCall, StatedContent,
    StatedId, Statement, ToolCall,
};
use self::{counted::Counted, indexed::LazyIndex};
pub use self::{error::MessageError, part_kinds::PartKinds};
use crate::{digest::Digest, role::Role};

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
    /// Always JSON, without white space around it.
    json: Box<str>,
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
    /// Returns the JSON, exactly as it was given.
    #[inline]
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0.json
    }

    /// Returns the size of the JSON in bytes.
    #[inline]
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

    /// Returns `true` if the message only says something, as most messages do. It has neither calls nor results. Where
    /// no call is open, it is sent as it is, without the reasoning that is [bound](Self::bound) to another prompt or
    /// origin.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.indexed.get().is_some_and(|indexed| indexed.is_plain)
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
    #[inline]
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
    #[inline]
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
    /// not define for requests, whatever the role. Also returns `true` if a tool call repeats a field, if it has
    /// no id, or if its function has no name or no arguments.
    ///
    /// Typed clients drop such fields (`reasoning_content`, `cache_control`, the `annotations` of a reply, a call's
    /// signature), but the log preserves them. Content parts are not examined.
    #[inline]
    #[must_use]
    pub fn has_unknown_fields(&self) -> bool {
        self.index().chat.has_unknown_fields
    }

    /// Returns `true` if `refusal`, `audio` or `function_call` has content, which is rare in replies.
    #[inline]
    #[must_use]
    pub fn has_refusal_audio_or_function_call(&self) -> bool {
        self.index().chat.has_refusal_audio_or_function_call
    }

    /// Returns the digest of the properties that providers compare when they check a signature. It is computed once.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| match self.dialect() {
            Some(dialect) => dialect.digest(self.json()),
            None => Digest::of(self.json().as_bytes()),
        })
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

//! Messages: verbatim JSON with an index that is built once.
//!
//! # Decisions
//!
//! - **A message is its JSON text**, with an index of its role, texts and calls. Providers add fields (signatures,
//!   cache marks) that must be sent back to them. Typed structs drop unknown fields, and a database's JSON type
//!   reorders keys and refuses `\u0000`.
//! - **Nothing recurses over input.** A message may be nested to any depth, because it stays text. Cloning and dropping
//!   a `serde_json::Value` are recursive, and a stack overflow ends the process.
//! - **Plain messages have a fast path.** Nearly all messages are a role and a text, in the order in which this library
//!   or async-openai writes them. Their index is read without a JSON parser, and a property test compares both ways.

mod change;
pub(crate) mod dialect;
mod make;
mod media;
#[cfg(test)]
mod repeated_fields_tests;
#[cfg(test)]
mod tests;
mod text;

use std::{
    fmt, ptr,
    sync::{Arc, Mutex, OnceLock},
};

pub use self::dialect::{
    AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Content, Dialect, DialectName, DialectNameError,
    Expressed, ForeignShape, Index, LeftOut, Media, OpenAiResponses, Part, PartKinds, Source, Space, StatedCall,
    StatedContent, StatedId, Statement, ToolCall,
};
pub(crate) use self::dialect::{KnownDigest, Place};
use crate::{
    compat::{Compat, MadeBy},
    digest::Digest,
    json,
    memory::{block, shared},
};

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
    /// The message without the reasoning that is bound to nothing. `None` if it has none.
    without_reasoning: OnceLock<Option<Message>>,
    /// The form of the message for the reader that was last asked for.
    adapted: Mutex<Option<Box<Adapted>>>,
}

/// The form of a message for a reader.
struct Adapted {
    compat: Compat,
    made_by: MadeBy,
    messages: Arc<[Message]>,
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
        self.0.indexed.set(dialect, index_in(dialect, self.json())?);
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
    /// text, no parts, no refusal, no audio and no calls. In other dialects, a message of the user can be blank, too:
    /// in the Messages API, one without a block that the API accepts.
    ///
    /// Providers refuse such a message when it is sent to them, so it is stored but never sent.
    #[inline]
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.index().is_blank
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

    /// Returns `true` if this is a message of chat completions with fields that only their maker may accept: those that
    /// the format does not define, and those without a value.
    #[inline]
    #[must_use]
    pub fn has_fields_of_maker(&self) -> bool {
        self.index().chat.has_fields_of_maker
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
        if let KnownDigest::Read(digest) = self.index().digest {
            return digest;
        }

        *self.0.digest.get_or_init(|| match self.dialect() {
            Some(dialect) if self.index().digest == KnownDigest::Unknown => dialect.digest(self.json()),
            _ => Digest::of(self.json().as_bytes()),
        })
    }
}

/// Returns the index of a message. A dialect of an application may have taken it from one of this crate, and still have
/// a digest of its own. No dialect looks for lone surrogates, because they are the same in all.
fn index_in(dialect: &'static dyn Dialect, json: &str) -> Result<Index, MessageError> {
    let mut index = dialect.index(json)?;
    index.is_rewritten |= !index.is_blank && json::without_lone_surrogates(json).is_some();
    if !DialectName::of(dialect).is_built_in() {
        index.digest = KnownDigest::Unknown;
    }
    Ok(index)
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

/// The index of a message.
enum LazyIndex {
    /// Read when the message was created.
    Read(Indexed),
    /// Empty as long as nobody knows the dialect.
    ReadLater(OnceLock<Indexed>),
}

struct Indexed {
    dialect: &'static dyn Dialect,
    index: Index,
    is_plain: bool,
}

impl Indexed {
    fn new(dialect: &'static dyn Dialect, index: Index) -> Self {
        Self { is_plain: is_plain(&index), dialect, index }
    }
}

/// Returns `true` if a message only says something. See [`Message::is_plain`](Message::is_plain).
fn is_plain(index: &Index) -> bool {
    let Index { role, opens, answers, server_calls, server_results, bound, .. } = index;
    let has_calls = !opens.is_empty() || !server_calls.is_empty();
    let has_results = !answers.is_empty() || !server_results.is_empty() || *role == Role::Tool;
    let is_sent_as_it_is = !bound.to_next && !index.is_blank && !index.is_rewritten;
    is_sent_as_it_is && !has_calls && !has_results
}

impl LazyIndex {
    #[inline]
    fn get(&self) -> Option<&Indexed> {
        match self {
            Self::Read(indexed) => Some(indexed),
            Self::ReadLater(indexed) => indexed.get(),
        }
    }

    /// Sets the index if there is none yet.
    fn set(&self, dialect: &'static dyn Dialect, index: Index) {
        if let Self::ReadLater(indexed) = self {
            indexed.get_or_init(|| Indexed::new(dialect, index));
        }
    }
}

/// The name of a counter, and its count in tokens. Only the first count is stored, because most callers use a single
/// counter.
#[derive(Debug, Default)]
struct Counted(OnceLock<(Arc<str>, u32)>);

impl Message {
    /// Returns the number of tokens that the counter with this name has counted, or `None` if no count of it was
    /// [remembered](Self::remember_tokens).
    #[inline]
    #[must_use]
    pub fn tokens_by(&self, counter: &str) -> Option<u32> {
        let (name, tokens) = self.0.counted.0.get()?;
        // Most names are the same `Arc`. Its address is compared faster than its text.
        let is_same = ptr::eq(&**name, counter) || **name == *counter;
        is_same.then_some(*tokens)
    }

    /// Remembers a counter's result, so that a message is counted only once. All clones share it, and an
    /// [exchange](crate::Exchange::tokens) stores it with the message.
    ///
    /// Only the first count is remembered. Returns `false` if there is one already. The count is not part of the
    /// message: neither its JSON nor its equality depends on it.
    #[allow(clippy::must_use_candidate)] // Most callers do not need the returned value.
    pub fn remember_tokens(&self, counter: &Arc<str>, tokens: u32) -> bool {
        self.0.counted.0.set((Arc::clone(counter), tokens)).is_ok()
    }
}

/// The factor for the JSON of a message whose index is read later. A message with bound reasoning and a call is four
/// messages with its copies, and each may have the arguments of the call a second time.
const READ_LATER: usize = 8;

impl Message {
    /// Returns an estimate of the memory that this message takes, in bytes: its JSON, the copies in its index
    /// (names, ids, and the arguments of tool calls), and a constant. Clones share this memory.
    ///
    /// A message with reasoning that is [bound](Self::bound) counts once more for each copy without that reasoning,
    /// which it keeps after the first prompt that needs the copy: the one that is [unbound](Self::unbound), and, if the
    /// reasoning is bound to its prompt, the one that is [unbound from it](Self::unbound_from_prompt). A message with
    /// calls, results or fields of its maker counts once more for its form for a [reader](Self::adapted), and one with
    /// other reasoning once more for the copy [without it](Self::without_reasoning).
    ///
    /// If the message was created before its dialect was known, the estimate is eight times its JSON and the constant.
    /// It stays the same after the dialect has read the message, so that a store can add and subtract it. A message
    /// with many very short calls takes more.
    #[must_use]
    pub fn memory(&self) -> usize {
        let json = shared(size_of::<Parsed>()) + block(self.bytes());
        if let LazyIndex::ReadLater(_) = self.0.indexed {
            return json * READ_LATER;
        }
        let own = json + self.index().memory();
        let bound = self.bound();
        let copies = [bound.can_be_removed(), bound.to_prefix, self.keeps_adapted(), self.may_have_thoughts()];
        own * (1 + copies.into_iter().map(usize::from).sum::<usize>())
    }
}

/// The error for a JSON text that is not a message. It never quotes the text.
#[derive(Debug, thiserror::Error)]
#[error("invalid message: {reason} (line {line}, column {column})")]
pub struct MessageError {
    reason: &'static str,
    line: usize,
    column: usize,
}

impl MessageError {
    /// Creates the error for a JSON value that is not an element of a dialect. The reason is a constant of the dialect,
    /// never a part of the value.
    #[must_use]
    pub const fn new(reason: &'static str) -> Self {
        Self { reason, line: 1, column: 1 }
    }

    /// Creates the error for a text that is not the JSON that a dialect expects. It says where, and does not quote the
    /// text.
    // serde_json's own messages may quote the input, which is private.
    #[allow(clippy::needless_pass_by_value)]
    #[must_use]
    pub fn from_json(error: serde_json::Error) -> Self {
        use serde_json::error::Category::{Data, Eof, Io, Syntax};
        let reason = match error.classify() {
            Data => "a value has another type than the format requires",
            Eof => "the JSON ends too early",
            Syntax => "the JSON is malformed",
            // Only the limit on levels causes an error of this category.
            Io => "the JSON has more than 128 levels",
        };
        Self { reason, line: error.line(), column: error.column() }
    }
}

/// The role of a message, as the chat-completions format names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Instructions from the operator.
    System,
    /// Instructions from the operator, as newer models call them.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// The result of a function call, the older form of [`Tool`](Self::Tool). It is passed through unchanged.
    Function,
    /// A role that this crate does not know. Such messages are stored and sent like any other.
    Other(Box<str>),
}

impl Role {
    /// Returns the name in the chat-completions format.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Function => "function",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for Role {
    fn from(name: &str) -> Self {
        match name {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            "function" => Self::Function,
            other => Self::Other(other.into()),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! Dialects: the message formats of providers.
//!
//! # Decisions
//!
//! - **The log is never translated.** Translations lose fields that providers require, such as signatures. Each dialect
//!   reads an index from its messages, and the planner reads only the index. A store keeps messages of dialects that it
//!   doesn't know.
//! - **One dialect reads the fields that providers add to chat completions.** DeepSeek, Gemini, OpenRouter and LiteLLM
//!   add such fields. With a dialect for each, a conversation could not change its provider.
//! - **Other formats are refused as chat completions.** The chat dialect can't find their calls and results, so a trim
//!   could separate them.

mod anthropic;
mod cache_control;
mod chat;
mod index;
mod responses;
mod statement;

use std::{borrow::Cow, fmt, ptr};

use serde::{Deserialize, Serialize};

pub use self::{
    anthropic::AnthropicMessages,
    chat::{ChatCompletions, Content, ForeignShape},
    index::{Bound, CallId, Closes, Index, Media, Part, PartKinds, Space, ToolCall},
    responses::OpenAiResponses,
    statement::{Expressed, LeftOut, Source, StatedCall, StatedContent, StatedId, Statement},
};
pub(crate) use self::{
    chat::{may_have_thoughts, plain_index, plain_index_at_start, plain_json, sendable_calls, tool_index, tool_json},
    index::KnownDigest,
    statement::Place,
};
use super::{Message, MessageError, Role};
use crate::{
    compat::{Compat, MadeBy},
    digest::Digest,
    json::Object,
    provenance::Origin,
};

/// The message format of a provider's API.
///
/// A conversation is stored in the format of the API with which it is held, byte for byte. A dialect reads such
/// messages, and writes the few that history adds to a prompt.
///
/// A [`Message`] is one element of the list that the API takes: a chat message, or an item that is no message.
/// Everything that decides about a prompt reads the message's [`Index`].
///
/// All methods are pure: the same message always leads to the same result. Otherwise prompts would not begin with the
/// earlier ones, and every call would pay for its whole prompt.
///
/// If a conversation changes its dialect, earlier exchanges are translated: their own dialect returns their
/// [`statements`](Self::statements), and the other one [writes](Self::express) them. The log stays as it is.
///
/// A dialect reads all elements of its format, and all that its methods return. Providers and users can send anything,
/// so no method may panic, or recurse over the values of a message. The crate `tower-chat-history-conformance` tests a
/// dialect. The crate `tower-chat-history` has a guide, "Writing a dialect".
///
/// This crate has the dialects of [chat completions](ChatCompletions), of [Anthropic's Messages
/// API](AnthropicMessages) and of [OpenAI's Responses API](OpenAiResponses).
///
/// A dialect is used as `&'static dyn Dialect`, so implement the trait for a type without fields. Implement
/// [`name`](Self::name), [`index`](Self::index), [`parts`](Self::parts), [`compose`](Self::compose),
/// [`abandoned`](Self::abandoned) and [`cleared`](Self::cleared). The other methods have defaults for formats in
/// which a message has at most one result, in which nothing is bound, and which are not translated often.
pub trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// Returns the name, which is stored with every exchange and must never change: 1 to 64 bytes of visible ASCII.
    fn name(&self) -> &'static str;

    /// Reads the index of a message from its JSON. An element of an unknown kind is no error: its role is
    /// [`Role::Other`]. White space, escapes, and the depth of nested values make no difference.
    ///
    /// `json` is valid JSON, because a [`Message`] is checked before its dialect reads it. So a dialect need not check
    /// it again.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not an element of this format.
    fn index(&self, json: &str) -> Result<Index, MessageError>;

    /// Calls `visit` with each part of the message, in order. The calls are those of the index, and so are the calls of
    /// the results.
    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>));

    /// Returns the JSON of a message that says this text in this role: [`Role::User`], [`Role::Assistant`] or
    /// [`Role::System`]. If the format allows no system message within a list, the result is a user message.
    fn compose(&self, role: &Role, text: &str) -> String;

    /// Returns the JSON of an element that has nothing but the result of a call that was abandoned. It must be constant
    /// for a call, and may differ between [spaces](Space).
    fn abandoned(&self, call: &CallId) -> String;

    /// Returns the JSON of the message with `placeholder` in place of the text of those results for which `clears`
    /// returns `true`. Returns `None` if there are none. A result without text, such as an image, may stay as it is, or
    /// get a smaller one.
    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String>;

    /// Returns the JSON of the message with a constant text in place of the media for which `leaves_out` returns
    /// `true`, or `None` if there are none. Everything else stays as it is written.
    ///
    /// `leaves_out` is called once for each medium that can be left out, in order. It gets the data of the medium, if
    /// the message has them.
    ///
    /// The default returns `None` and calls nothing.
    fn without_media(
        &self,
        message: &Message,
        leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool,
    ) -> Option<String> {
        let _ = (message, leaves_out);
        None
    }

    /// Returns the JSON of the message with only the results of these calls, or `None` if nothing is left. `kept` is
    /// empty or a part of the calls that the message [answers](Index::answers), in the same order. Of several results of
    /// one call, the first ones are kept.
    ///
    /// The default returns `None`, for formats in which a message with a result has nothing else.
    fn answering(&self, message: &Message, kept: &[CallId]) -> Option<String> {
        let _ = (message, kept);
        None
    }

    /// Returns the JSON of the message with only these of its [server calls](Index::server_calls) and [server
    /// results](Index::server_results), or `None` if nothing is left. Each list is empty or a part of that of the index,
    /// in the same order. Reasoning after something that is left out is left out, too. It is called for messages that
    /// have such calls or results.
    ///
    /// The default returns `None`.
    fn settled(&self, message: &Message, calls: &[CallId], results: &[CallId]) -> Option<String> {
        let _ = (message, calls, results);
        None
    }

    /// Returns `true` if a reply with this finish reason is not finished: the model continues it if it is called again
    /// without further input.
    ///
    /// The default returns `false`.
    fn resumes_without_input(&self, finish_reason: &str) -> bool {
        let _ = finish_reason;
        false
    }

    /// Returns `true` if the provider refuses a prompt that begins with a reply, or with an instruction that is
    /// [bound](Bound::to_next) to the next message. A window that begins with one then gets a constant message of the
    /// user before it.
    ///
    /// The default returns `false`.
    fn begins_with_user(&self) -> bool {
        false
    }

    /// Returns the JSON of the message without everything that is [bound](Index::bound) to a prompt or an origin, or
    /// `None` if nothing is left. It is called for messages that have such parts.
    ///
    /// The default returns `None`.
    fn unbound(&self, message: &Message) -> Option<String> {
        let _ = message;
        None
    }

    /// Returns the JSON of the message without everything that is [bound](Index::bound) to its prompt, or `None` if
    /// nothing is left. Parts that are bound only to their origin stay. A message that [stands
    /// for](Index::restarts) everything before it must still do so. It is called for messages with parts that are bound
    /// to their prompt.
    ///
    /// The default returns the message without everything that is [bound](Self::unbound).
    fn unbound_from_prompt(&self, message: &Message) -> Option<String> {
        self.unbound(message)
    }

    /// Returns the JSON of the message without the reasoning that is [bound](Index::bound) to nothing, or `None` if it
    /// has none. A message of which nothing else is left says that there is no reply. The result has no such reasoning
    /// any more.
    ///
    /// A message with anything that is bound is left as it is. The default returns `None`.
    fn without_reasoning(&self, message: &Message) -> Option<String> {
        let _ = message;
        None
    }

    /// Returns the JSON of the message in a form that providers accept. It is called for messages that are
    /// [rewritten](Index::is_rewritten) and have no lone surrogates.
    ///
    /// The default returns the message's own JSON.
    fn sendable(&self, message: &Message) -> String {
        message.json().to_owned()
    }

    /// Returns the JSON of the messages in which this one is sent to a reader that accepts less than the log has, or
    /// `None` if it is sent as it is. There is one message, or, for a reader of [single
    /// calls](Compat::single_calls), one for each call. Fields that only their maker accepts are left out if
    /// `made_by` is [`MadeBy::Other`].
    ///
    /// Only the flags that concern a message by itself are read here. Nothing that the message says gets lost.
    ///
    /// The default returns `None`.
    fn adapted(&self, message: &Message, compat: &Compat, made_by: MadeBy) -> Option<Vec<String>> {
        let _ = (message, compat, made_by);
        None
    }

    /// Returns the digest of the properties that providers compare when they check a signature.
    ///
    /// The default is the digest of the JSON.
    fn digest(&self, json: &str) -> Digest {
        Digest::of(json.as_bytes())
    }

    /// Returns what the message says, for a translation into another dialect. Everything that only its provider can
    /// use is left out and counted: reasoning, calls that the provider executed, compactions.
    ///
    /// A message that [answers](Index::answers) calls has one [result](Statement::Result) for each, before everything
    /// else. Each call of the [index](Index::opens) is one [call](Statement::Call).
    ///
    /// The default reads the [parts](Self::parts). They have neither the URLs nor the types of media.
    fn statements<'m>(&self, message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
        statement::of_parts(message, left_out)
    }

    /// Returns the JSON of the elements that say this, which an exchange of another dialect says. All statements are of
    /// its input, or all are of its reply. If the dialect has no form for a call, it must have none for its result.
    ///
    /// The elements must be such that they can be sent as they are: they say something, nothing in them is
    /// [bound](Index::bound), and none is [rewritten](Index::is_rewritten). A call and its result get the same
    /// [id](StatedId).
    ///
    /// The default says everything in texts, also calls and results.
    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        statement::express(self, statements, expressed)
    }

    /// Returns `true` if `reader` can read reasoning that `made_by` sealed.
    ///
    /// The default returns `true` if the two are equal.
    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        made_by == reader
    }
}

/// Returns the part of a text that stands for a medium. It keeps the medium's mark for the cache.
fn placeholder_part(kind: &str, media: Media, medium: &Object<'_>) -> String {
    let text = media.placeholder();
    match medium.get("cache_control") {
        Some(mark) => format!(r#"{{"type":"{kind}","text":"{text}","cache_control":{mark}}}"#),
        None => format!(r#"{{"type":"{kind}","text":"{text}"}}"#),
    }
}

/// Returns `true` if two values of an origin are the same, as far as they are known.
fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Returns the dialect with this name, if this crate has it.
pub(crate) fn known(name: &DialectName) -> Option<&'static dyn Dialect> {
    let known: [&'static dyn Dialect; 3] = [&ChatCompletions, &AnthropicMessages, &OpenAiResponses];
    known.into_iter().find(|dialect| dialect.name() == name.as_str())
}

/// The name of a [dialect](Dialect), which every stored exchange has.
///
/// A name has 1 to 64 bytes of visible ASCII. The default is that of [`ChatCompletions`].
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DialectName(Cow<'static, str>);

impl DialectName {
    /// The maximum length of a name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The name of [`ChatCompletions`].
    pub const CHAT_COMPLETIONS: Self = Self(Cow::Borrowed(ChatCompletions::NAME));

    /// Returns the name of a dialect.
    #[must_use]
    pub fn of(dialect: &dyn Dialect) -> Self {
        Self(Cow::Borrowed(dialect.name()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if this is the given name.
    #[inline]
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        // Most names are the same constant. Its address is compared faster than its text.
        ptr::eq(self.as_str(), name) || self.as_str() == name
    }

    /// Returns `true` if this is the name of chat completions.
    #[must_use]
    pub fn is_chat_completions(&self) -> bool {
        self.0 == ChatCompletions::NAME
    }

    /// Returns `true` if this crate has the dialect. Messages in it have their [index](crate::Index) from the
    /// beginning.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        known(self).is_some()
    }
}

impl Default for DialectName {
    fn default() -> Self {
        Self::CHAT_COMPLETIONS
    }
}

impl fmt::Debug for DialectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DialectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DialectName {
    type Error = DialectNameError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let legal = !name.is_empty() && name.len() <= Self::MAX_LEN && name.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(name.into())) } else { Err(DialectNameError { len: name.len() }) }
    }
}

impl From<DialectName> for String {
    fn from(name: DialectName) -> Self {
        name.0.into_owned()
    }
}

/// The error for an invalid name of a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid dialect name: expected 1 to {max} bytes of visible ASCII, got {len} bytes", max = DialectName::MAX_LEN)]
pub struct DialectNameError {
    len: usize,
}

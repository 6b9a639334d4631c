//! The properties of a message that history needs, in all dialects.

use std::ops::Range;

use super::{CallId, ToolCall};
use crate::{json, memory::block, message::PartKinds, role::Role};

/// The properties of a message that history needs. A [dialect](super::Dialect) reads them from the message's JSON in
/// one pass, once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Index {
    /// Who speaks. A dialect maps its own terms to these roles: [`Role::Assistant`] is every element of the model's
    /// reply (text, reasoning, calls), [`Role::Tool`] is an element with nothing but results, and an element of an
    /// unknown kind has [`Role::Other`].
    pub role: Role,
    /// The calls that wait for a result after this message, in order. Calls that the provider executes itself do not
    /// wait.
    pub opens: Box<[ToolCall]>,
    /// The ids of the calls that this message answers, in order.
    pub answers: Box<[CallId]>,
    /// The calls of this message that the provider executes itself, and whose results it does not contain, in order. A
    /// reply has them if the provider paused. They stay only as long as nothing but replies and results follows them.
    pub server_calls: Box<[CallId]>,
    /// The calls of earlier messages that the provider executed itself, and whose results this message contains, in
    /// order.
    pub server_results: Box<[CallId]>,
    /// When this message closes the calls that are open before it.
    pub closes: Closes,
    /// The conditions under which the message may be sent as it is.
    pub bound: Bound,
    /// `true` if providers refuse the message because it says nothing: for example a reply without text and calls.
    pub says_nothing: bool,
    /// `true` if [`Dialect::sendable`](super::Dialect::sendable) changes the message.
    pub is_rewritten: bool,
    /// `true` if the message stands for everything before it, such as a compaction that the provider made. A prompt
    /// with such messages begins at the newest one. If it is left out, because it is [bound](Self::bound) to another
    /// origin, the messages before it are sent. Other parts of the message may be bound to its prompt: they are left
    /// out, because later prompts begin anew.
    pub restarts: bool,
    /// The kinds of parts, if the dialect knows them after its one pass. Otherwise they are read from the
    /// [parts](super::Dialect::parts) when they are needed.
    pub part_kinds: Option<PartKinds>,
    pub(crate) chat: ChatFields,
    /// `false` only if a message of Anthropic's Messages API has no mark for the cache. Other dialects do not
    /// read it.
    pub(crate) may_have_cache_marks: bool,
}

/// When a message closes the calls that are open before it. A closed call gets a [constant
/// result](super::Dialect::abandoned) if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closes {
    /// Always, after the results that the message itself contains.
    #[default]
    Always,
    /// If one of the calls was answered. The elements of one reply have this value if the dialect has several: a second
    /// call does not close the first one, but the next reply does.
    AfterResult,
    /// Never.
    Never,
}

/// The conditions under which a message may be sent again as it is. A provider that signs reasoning refuses it in
/// another place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// A part of the message is valid only after the prompt that it was made under: the same head, and the same
    /// messages.
    pub to_prefix: bool,
    /// A part of the message can be read only by the [origin](crate::Origin) that made it.
    pub to_origin: bool,
    /// The message must be followed by the next element of its reply. An instruction must be followed by the reply of
    /// its exchange.
    pub to_next: bool,
}

impl Bound {
    /// Bound to nothing.
    pub const NONE: Self = Self { to_prefix: false, to_origin: false, to_next: false };

    /// Bound to the prompt and to the origin, as signed reasoning is.
    pub const TO_PREFIX: Self = Self { to_prefix: true, to_origin: true, to_next: false };

    /// Bound to the origin.
    pub const TO_ORIGIN: Self = Self { to_prefix: false, to_origin: true, to_next: false };

    /// Returns `true` if a part of the message is bound to a prompt or an origin, so that it may have to be left out.
    #[must_use]
    pub const fn can_be_removed(self) -> bool {
        self.to_prefix || self.to_origin
    }

    /// Returns the conditions of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            to_prefix: self.to_prefix || other.to_prefix,
            to_origin: self.to_origin || other.to_origin,
            to_next: self.to_next || other.to_next,
        }
    }

    /// Makes this bound to the next element of the reply, too.
    #[must_use]
    pub const fn and_next(mut self) -> Self {
        self.to_next = true;
        self
    }
}

impl Index {
    /// Creates the index of a message in this role that has neither calls nor results. A message with [`Role::Tool`]
    /// closes no calls, and every other one does.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            closes: if role == Role::Tool { Closes::Never } else { Closes::Always },
            role,
            opens: Box::default(),
            answers: Box::default(),
            server_calls: Box::default(),
            server_results: Box::default(),
            bound: Bound::NONE,
            says_nothing: false,
            is_rewritten: false,
            restarts: false,
            part_kinds: None,
            chat: ChatFields::default(),
            may_have_cache_marks: false,
        }
    }

    /// The index of a message whose dialect is unknown.
    pub(crate) fn unknown() -> &'static Self {
        static UNKNOWN: std::sync::LazyLock<Index> =
            std::sync::LazyLock::new(|| Index::new(Role::Other(Box::default())));
        &UNKNOWN
    }

    pub(crate) fn memory(&self) -> usize {
        let role = match &self.role {
            Role::Other(role) => block(role.len()),
            _ => 0,
        };
        let name = self.chat.name.as_ref().map_or(0, |name| block(name.len()));
        let ids = |ids: &[CallId]| block(size_of_val(ids)) + ids.iter().map(CallId::memory).sum::<usize>();
        let ids: usize = [&self.answers, &self.server_calls, &self.server_results].into_iter().map(|it| ids(it)).sum();
        role + name + ids + self.opens.iter().map(ToolCall::memory).sum::<usize>()
    }
}

/// The properties that only messages of chat completions have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChatFields {
    pub(crate) name: Option<Box<str>>,
    /// The place of the content, unless it is absent or null.
    pub(crate) content: Option<ContentPlace>,
    pub(crate) has_unknown_fields: bool,
    pub(crate) has_refusal_audio_or_function_call: bool,
    /// True for a reply with reasoning or signatures.
    pub(crate) has_reasoning: bool,
}

/// The place of the content in a message's JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContentPlace {
    pub(crate) range: Range<usize>,
    /// True for a string without escapes: its text is what is between the quotes.
    pub(crate) is_plain_text: bool,
}

impl ContentPlace {
    /// Returns the place of this content, which begins at this byte of the message.
    pub(crate) fn of(content: &str, start: usize) -> Self {
        let is_plain_text = content.starts_with('"') && !json::has_escapes(content);
        Self { range: start..start + content.len(), is_plain_text }
    }
}

//! The properties of a message that history needs, in all dialects: its index, its calls and its parts.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use serde::de::IgnoredAny;

use crate::{
    digest::Digest,
    json,
    memory::{block, shared},
    message::{Message, Role},
};

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
    pub is_blank: bool,
    /// `true` if [`Message::sendable`] changes the message: [`Dialect::sendable`](super::Dialect::sendable) does, or it
    /// has a lone surrogate. A dialect need not look for these.
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
    pub(crate) digest: KnownDigest,
}

/// The [digest](Message::digest) of a message, as far as the one pass of its dialect has read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KnownDigest {
    /// The dialect reads the message again if the digest is needed.
    #[default]
    Unknown,
    /// It is that of the whole JSON, which has no mark for the cache.
    OfJson,
    Read(Digest),
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
            is_blank: false,
            is_rewritten: false,
            restarts: false,
            part_kinds: None,
            chat: ChatFields::default(),
            may_have_cache_marks: false,
            digest: KnownDigest::Unknown,
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

        let mut ids = 0;
        for list in [&self.answers, &self.server_calls, &self.server_results] {
            ids += block(size_of_val::<[CallId]>(list));
            ids += list.iter().map(CallId::memory).sum::<usize>();
        }

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
    /// True if the message, or one of its calls, has fields that the format does not define, or fields without a value.
    pub(crate) has_fields_of_maker: bool,
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

/// A space of call ids. Some dialects have several kinds of calls, and results are matched within one kind only: a
/// function call and a custom call may then have the same id. Each dialect numbers its spaces itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(pub u8);

impl Space {
    /// The only space of chat completions.
    pub const DEFAULT: Self = Self(0);
}

/// The id of a call within its [space](Space). Cloning only increments a reference count.
///
/// Providers reuse ids, so an id is unique only within its round.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CallId {
    space: Space,
    id: Arc<str>,
}

impl CallId {
    /// Creates the id of a call in this space.
    #[must_use]
    pub fn new(space: Space, id: impl Into<Arc<str>>) -> Self {
        Self { space, id: id.into() }
    }

    /// Returns the space.
    #[must_use]
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Returns the id as the provider wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.id
    }

    pub(crate) fn memory(&self) -> usize {
        shared(self.id.len())
    }
}

impl AsRef<str> for CallId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::DEFAULT => self.id.fmt(f),
            Space(space) => write!(f, "{space}/{:?}", self.id),
        }
    }
}

/// A call of a tool by the model, which waits for a result.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolCall {
    id: CallId,
    name: Box<str>,
    arguments: Box<str>,
    custom: bool,
}

impl ToolCall {
    /// Creates a call of the function `name` with these arguments.
    #[must_use]
    pub fn new(id: CallId, name: impl Into<Box<str>>, arguments: impl Into<Box<str>>) -> Self {
        Self { id, name: name.into(), arguments: arguments.into(), custom: false }
    }

    /// Makes this the call of a custom tool, whose input is free text.
    #[must_use]
    pub const fn custom(mut self) -> Self {
        self.custom = true;
        self
    }

    /// Returns the id that the result must name. Providers reuse ids, so it is unique only within its message.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Returns the id with its space.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.id
    }

    /// Returns the name of the function or custom tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments as the model wrote them: usually, but not always, the text of a JSON object.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the arguments as the JSON of an object, because most servers refuse anything else. An object stays as it
    /// is written. Arguments that are missing, empty or null become `{}`. Any other text, such as arguments that were
    /// cut off, becomes `{"INVALID_JSON":"…"}`, so that the model sees its own text. The input of a custom tool is
    /// free text, and stays.
    #[must_use]
    pub fn arguments_object(&self) -> Cow<'_, str> {
        if self.custom || is_object(&self.arguments) {
            return Cow::Borrowed(&self.arguments);
        }
        Cow::Owned(match self.arguments.trim() {
            "" | "null" => "{}".to_owned(),
            text => format!(r#"{{"INVALID_JSON":{}}}"#, json::quoted(text)),
        })
    }

    /// Returns `true` if this calls a custom tool, whose input is free text, and `false` for a function.
    #[must_use]
    pub const fn is_custom(&self) -> bool {
        self.custom
    }

    pub(crate) fn memory(&self) -> usize {
        block(size_of::<Self>()) + self.id.memory() + block(self.name().len()) + block(self.arguments().len())
    }
}

/// Returns `true` if a text is the JSON of an object.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A part of a message. [`Message::parts`](crate::Message::parts) visits all of them, in order.
///
/// `Debug` shows sizes, not text.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// The name of the participant.
    Name(&'a str),
    /// A text that was said.
    Text(Cow<'a, str>),
    /// The text with which the model refused.
    Refusal(Cow<'a, str>),
    /// Readable reasoning of the model.
    Reasoning(Cow<'a, str>),
    /// Data that only the provider can read, such as a signature or encrypted reasoning. The value is its size in
    /// bytes.
    Sealed(usize),
    /// A call that waits for a result.
    Call(&'a ToolCall),
    /// A call of another form: the function's name, and its arguments.
    OtherCall {
        /// The name.
        name: Cow<'a, str>,
        /// The arguments.
        arguments: Cow<'a, str>,
    },
    /// The text of a call's result. The result of one call can be several such parts.
    Result {
        /// The call.
        call: &'a CallId,
        /// The text.
        text: Cow<'a, str>,
    },
    /// A part that is not text.
    Media {
        /// The kind of data.
        media: Media,
        /// The type as the format names it.
        kind: Cow<'a, str>,
        /// The words in it, if they are known, such as the transcript of audio.
        words: Option<Cow<'a, str>>,
        /// The data itself, if the message has it: base64, or a URL that begins with `data:`. Its size is a measure of
        /// the tokens of a document, and the header of an image has the image's size in pixels.
        data: Option<Cow<'a, str>>,
    },
    /// A part of another kind.
    Other {
        /// The type as the format names it. It is empty if there is none.
        kind: Cow<'a, str>,
        /// The text if the part has one, and otherwise its JSON.
        text: Cow<'a, str>,
    },
}

/// A kind of part that is not text. Its size in bytes is no measure of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Media {
    /// An image that the model sees in low detail.
    ImageLowDetail,
    /// An image.
    Image,
    /// Audio.
    Audio,
    /// A video.
    Video,
    /// A file or a document.
    File,
}

impl Media {
    /// Returns the text that stands in a prompt for a medium that is left out. It needs no escapes in JSON.
    #[must_use]
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Image | Self::ImageLowDetail => "[image left out]",
            Self::Audio => "[audio left out]",
            Self::Video => "[video left out]",
            Self::File => "[document left out]",
        }
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) => write!(f, "Name({} bytes)", text.len()),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Refusal(text) => write!(f, "Refusal({} bytes)", text.len()),
            Self::Reasoning(text) => write!(f, "Reasoning({} bytes)", text.len()),
            Self::Other { text, .. } => write!(f, "Other({} bytes)", text.len()),
            Self::OtherCall { arguments, .. } => write!(f, "OtherCall({} bytes)", arguments.len()),
            Self::Result { call, text } => write!(f, "Result({call:?}, {} bytes)", text.len()),
            Self::Sealed(bytes) => write!(f, "Sealed({bytes} bytes)"),
            Self::Call(call) => call.fmt(f),
            Self::Media { media, .. } => media.fmt(f),
        }
    }
}

/// The kinds of [parts](Part) that a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartKinds {
    /// `true` if there is a part with [`Part::Reasoning`] or [`Part::Sealed`].
    pub has_reasoning: bool,
    /// `true` if there is a part with [`Part::Media`].
    pub has_media: bool,
}

impl PartKinds {
    /// Notes the kind of this part, if it is one of those above.
    pub const fn add(&mut self, part: &Part<'_>) {
        match part {
            Part::Reasoning(_) | Part::Sealed(_) => self.has_reasoning = true,
            Part::Media { .. } => self.has_media = true,
            _ => {}
        }
    }
}

impl Message {
    /// Returns the kinds of parts that the message has: those in its [index](Index::part_kinds), or those of its
    /// parts, which are then read once for all clones. As long as the [dialect](Self::dialect) is not known, there are
    /// none.
    #[inline]
    #[must_use]
    pub fn part_kinds(&self) -> PartKinds {
        self.index().part_kinds.unwrap_or_else(|| self.kinds_of_parts())
    }

    fn kinds_of_parts(&self) -> PartKinds {
        let Some(dialect) = self.dialect() else { return PartKinds::default() };
        *self.0.part_kinds.get_or_init(|| {
            let mut kinds = PartKinds::default();
            dialect.parts(self, &mut |part| kinds.add(&part));
            kinds
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AnthropicMessages, ChatCompletions, OpenAiResponses};

    const NONE: PartKinds = PartKinds { has_reasoning: false, has_media: false };
    const REASONING: PartKinds = PartKinds { has_reasoning: true, ..NONE };
    const MEDIA: PartKinds = PartKinds { has_media: true, ..NONE };

    #[test]
    fn reasoning_and_media_are_found_in_every_dialect() {
        let image = r#"{"type":"image","source":{"type":"url","url":"https://x.test/a.png"}}"#;
        let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
        let messages = |json: &str| Message::in_dialect(&AnthropicMessages, json).unwrap().part_kinds();
        let with = |blocks: &str| messages(&format!(r#"{{"role":"assistant","content":[{blocks}]}}"#));
        assert_eq!(messages(r#"{"role":"user","content":"thinking, image"}"#), NONE);
        assert_eq!(with(thinking), REASONING);
        assert_eq!(with(image), MEDIA);
        assert_eq!(with(&format!("{thinking},{image}")), PartKinds { has_reasoning: true, has_media: true });

        let responses = |json| Message::in_dialect(&OpenAiResponses, json).unwrap().part_kinds();
        assert_eq!(responses(r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#), REASONING);
        assert_eq!(
            responses(r#"{"role":"user","content":[{"type":"input_image","image_url":"https://x.test/a.png"}]}"#),
            MEDIA
        );

        let chat = |json| Message::in_dialect(&ChatCompletions, json).unwrap().part_kinds();
        assert_eq!(chat(r#"{"role":"assistant","content":"reasoning"}"#), NONE);
        assert_eq!(chat(r#"{"role":"assistant","content":"a","reasoning_content":"r"}"#), REASONING);
        assert_eq!(chat(r#"{"role":"assistant","audio":{"id":"x"}}"#), MEDIA);
    }

    #[test]
    fn the_kinds_are_read_again_when_the_dialect_becomes_known() {
        let json = r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#;
        let message = Message::unread(json.into());
        assert_eq!(message.part_kinds(), NONE);
        message.read_in(&OpenAiResponses).unwrap();
        assert_eq!(message.part_kinds(), REASONING);
    }
}

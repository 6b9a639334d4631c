//! The statements of messages: what they say, without the form of a provider.
//!
//! A translation reads the statements of messages of one dialect, and writes them in another one. So each dialect has
//! two functions, and not one for each other dialect.

mod default;
mod id;
mod media;

use std::{borrow::Cow, fmt, ops::AddAssign};

use serde::de::IgnoredAny;
use serde_json::Value;

pub(crate) use self::id::Place;
pub(super) use self::{
    default::{express, of_parts},
    media::{as_note, data_url, image_url, is_data, of_url},
};
pub use self::{id::StatedId, media::Source};
use super::{Media, ToolCall};
use crate::{json::quoted, provenance::Origin};

/// Something that a message says, in a form that belongs to no provider. A dialect reads the
/// [statements](super::Dialect::statements) of its messages, and [writes](super::Dialect::express) those of others.
///
/// `Debug` shows sizes, not text.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Statement<'a> {
    /// Texts and media of the user, in one message.
    User(Vec<StatedContent<'a>>),
    /// An instruction.
    Instruction(Cow<'a, str>),
    /// A text of the model. A refusal is one, too.
    Model(Cow<'a, str>),
    /// A call by the model, which waits for a result. Calls that follow each other are parallel calls.
    Call(StatedCall<'a>),
    /// The result of a call.
    Result {
        /// The call.
        call: StatedId<'a>,
        /// Texts and media.
        content: Vec<StatedContent<'a>>,
        /// `true` if the result says that the call failed.
        is_error: bool,
    },
}

/// A part of a user's message or of a result.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum StatedContent<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// An image, audio, a video or a file.
    Media {
        /// The kind of data.
        media: Media,
        /// The place of the data.
        source: Source<'a>,
        /// The name of the file, if it has one.
        name: Option<Cow<'a, str>>,
    },
}

/// The place for which statements are written, and the account of what is left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Expressed<'t> {
    /// The provider that is called.
    pub reader: &'t Origin,
    /// `true` if the reply of the same exchange follows the statements. All calls before it then have their results.
    pub is_followed: bool,
    /// The parts for which the dialect has no form.
    pub left_out: LeftOut,
}

impl<'t> Expressed<'t> {
    /// Creates the account for this provider. No reply follows, and nothing is left out yet.
    #[must_use]
    pub fn new(reader: &'t Origin) -> Self {
        Self { reader, is_followed: false, left_out: LeftOut::default() }
    }

    /// Sets whether the reply of the same exchange follows. The default is `false`.
    #[must_use]
    pub const fn followed(mut self, is_followed: bool) -> Self {
        self.is_followed = is_followed;
        self
    }
}

impl<'a> Statement<'a> {
    /// Returns the id of the call, if this is a call or a result.
    pub(crate) fn id_mut(&mut self) -> Option<&mut StatedId<'a>> {
        match self {
            Self::Call(call) => Some(&mut call.id),
            Self::Result { call, .. } => Some(call),
            _ => None,
        }
    }

    /// Returns `true` if this is a statement of the model.
    pub(super) const fn is_of_model(&self) -> bool {
        matches!(self, Self::Model(_) | Self::Call(_))
    }
}

impl StatedContent<'_> {
    /// Returns the size of the text or the data.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Media { source, .. } => source.bytes(),
        }
    }
}

impl std::fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(content) => f.debug_tuple("User").field(content).finish(),
            Self::Instruction(text) => write!(f, "Instruction({} bytes)", text.len()),
            Self::Model(text) => write!(f, "Model({} bytes)", text.len()),
            Self::Call(call) => call.fmt(f),
            Self::Result { call, content, is_error } => f
                .debug_struct("Result")
                .field("call", call)
                .field("content", content)
                .field("is_error", is_error)
                .finish(),
        }
    }
}

impl std::fmt::Debug for StatedContent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => write!(f, "Text({} bytes)", self.bytes()),
            Self::Media { media, .. } => write!(f, "{media:?}({} bytes)", self.bytes()),
        }
    }
}

/// The numbers of parts that a translation leaves out, because another provider cannot read them, or because the other
/// dialect has no form for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Messages with reasoning, readable or sealed.
    pub reasoning: usize,
    /// Calls that the provider executed itself, and their results.
    pub provider_calls: usize,
    /// Compactions that the provider made. The messages before them are sent in their place.
    pub compactions: usize,
    /// Images, audio, videos and files. Each becomes a short note, unless the model made it.
    pub media: usize,
    /// Parts of other kinds: names of participants, calls and results without an id, unknown kinds.
    pub other: usize,
}

impl LeftOut {
    /// Returns the sum of all numbers.
    #[must_use]
    pub const fn total(self) -> usize {
        let Self { reasoning, provider_calls, compactions, media, other } = self;
        reasoning + provider_calls + compactions + media + other
    }

    /// Returns `true` if nothing is left out.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.total() == 0
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.reasoning += other.reasoning;
        self.provider_calls += other.provider_calls;
        self.compactions += other.compactions;
        self.media += other.media;
        self.other += other.other;
    }
}

/// A call that is written in another dialect, always as the call of a function.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct StatedCall<'a> {
    /// The id.
    pub id: StatedId<'a>,
    call: &'a ToolCall,
}

/// The largest number of levels of lists and objects in arguments. Deeper arguments become a text.
const MAX_LEVELS: usize = 100;

/// The maximum length of a function's name, in bytes.
const MAX_NAME: usize = 64;

impl<'a> StatedCall<'a> {
    /// Creates the call.
    #[must_use]
    pub fn new(call: &'a ToolCall) -> Self {
        Self { id: StatedId::new(call.call_id()), call }
    }

    /// Returns the name of the function with letters, digits, `_` and `-` only, and at most 64 of them. Each other
    /// character becomes `_`.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        let name = self.call.name();
        if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_legal_in_name) {
            return Cow::Borrowed(name);
        }
        let legal: String = name.chars().take(MAX_NAME).map(|c| if is_legal_in_name(c) { c } else { '_' }).collect();
        Cow::Owned(if legal.is_empty() { "_".to_owned() } else { legal })
    }

    /// Returns the arguments as the JSON of an object. An object stays as it is written. Any other text, such as the
    /// input of a custom tool, becomes `{"input":"…"}`. An empty one becomes `{}`.
    #[must_use]
    pub fn arguments(&self) -> Cow<'a, str> {
        let text = self.call.arguments();
        if text.trim().is_empty() {
            return Cow::Borrowed("{}");
        }
        let is_object = !self.call.is_custom() && text.trim_start().starts_with('{') && is_plain(text);
        if is_object { Cow::Borrowed(text.trim()) } else { Cow::Owned(format!(r#"{{"input":{}}}"#, quoted(text))) }
    }
}

const fn is_legal_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns `true` if the text is JSON that every parser reads: it has few levels, and all strings are Unicode.
fn is_plain(text: &str) -> bool {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return false;
    }
    // serde_json reads at most 127 levels into a value.
    let open = "[".repeat(127 - MAX_LEVELS);
    let close = "]".repeat(127 - MAX_LEVELS);
    serde_json::from_str::<Value>(&[open.as_str(), text, close.as_str()].concat()).is_ok()
}

impl fmt::Debug for StatedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id)
            .field("name", &self.call.name())
            .field("arguments_bytes", &self.call.arguments().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::dialect::{CallId, Space};

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall::new(CallId::new(Space::DEFAULT, "x"), name, arguments)
    }

    #[test]
    fn arguments_are_always_an_object() {
        let deep = |levels: usize| format!("{}{}", r#"{"a":"#.repeat(levels) + "1", "}".repeat(levels));
        for (arguments, expected) in [
            ("", "{}".to_owned()),
            (" \n", "{}".to_owned()),
            (r#" {"a": [1.50]} "#, r#"{"a": [1.50]}"#.to_owned()),
            (r#"{"a""#, r#"{"input":"{\"a\""}"#.to_owned()),
            ("{}],[{}", r#"{"input":"{}],[{}"}"#.to_owned()),
            ("[1]", r#"{"input":"[1]"}"#.to_owned()),
            ("null", r#"{"input":"null"}"#.to_owned()),
            (r#"{"a":"\ud83d"}"#, r#"{"input":"{\"a\":\"\\ud83d\"}"}"#.to_owned()),
            (&deep(MAX_LEVELS), deep(MAX_LEVELS)),
            (&deep(MAX_LEVELS + 1), format!(r#"{{"input":{}}}"#, quoted(&deep(MAX_LEVELS + 1)))),
        ] {
            let call = call("f", arguments);
            assert_eq!(StatedCall::new(&call).arguments(), expected, "{arguments}");
        }
        let custom = call("f", "{}").custom();
        assert_eq!(StatedCall::new(&custom).arguments(), r#"{"input":"{}"}"#);
    }

    #[test]
    fn names_have_only_characters_that_all_providers_accept() {
        for (name, expected) in [("get_it-2", "get_it-2"), ("a.b/c ä", "a_b_c__"), ("", "_"), ("é", "_")] {
            let call = call(name, "");
            assert_eq!(StatedCall::new(&call).name(), expected);
        }
        let long = call(&"n".repeat(65), "");
        assert_eq!(StatedCall::new(&long).name(), "n".repeat(64));
    }
}

//! The description of what the reader of a prompt accepts.
//!
//! # Decisions
//!
//! - **A reader is described by data**, because what servers and chat templates accept changes every month. Programs
//!   call such data "compatibility flags".
//! - **The default is a reader that takes everything.** A flag says what a reader refuses, so flags that are learned
//!   from refusals can only be added.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A description of what the reader of a prompt (a provider, a server, or a chat template) accepts, if it accepts less
/// than the log may have. The default is a reader that accepts everything.
///
/// A prompt is adapted to its reader when it's made. The log stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Compat {
    /// Where system messages may be.
    #[serde(skip_serializing_if = "is_default")]
    pub system: SystemMessages,
    /// True if the role `developer` is refused. Such messages are sent as system messages.
    #[serde(skip_serializing_if = "is_default")]
    pub no_developer: bool,
    /// True if messages of the user and replies must alternate. A tool round counts as a part of a reply.
    #[serde(skip_serializing_if = "is_default")]
    pub alternates: bool,
    /// True if the first message, apart from system messages, must be one of the user.
    #[serde(skip_serializing_if = "is_default")]
    pub begins_with_user: bool,
    /// True if the content of a message must be a text, and not a list of parts.
    #[serde(skip_serializing_if = "is_default")]
    pub text_content: bool,
    /// True if fields that aren't part of OpenAI's chat completions are refused, also if they are `null`.
    #[serde(skip_serializing_if = "is_default")]
    pub plain_fields: bool,
    /// The rule for the field `reasoning_content` of replies.
    #[serde(skip_serializing_if = "is_default")]
    pub reasoning: ReasoningField,
    /// The ids that tool calls may have. Other ids are replaced by ids that are made from them.
    #[serde(skip_serializing_if = "is_default")]
    pub call_ids: CallIdForm,
    /// True if tool calls in the history are refused in a request without tools.
    #[serde(skip_serializing_if = "is_default")]
    pub calls_need_tools: bool,
    /// True if a reply may have only one tool call.
    #[serde(skip_serializing_if = "is_default")]
    pub single_calls: bool,
    /// The media that a prompt may have.
    #[serde(skip_serializing_if = "is_default")]
    pub media: MediaCompat,
}

/// Where system messages may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SystemMessages {
    /// Anywhere.
    #[default]
    Anywhere,
    /// Only at the beginning, and only one. Later ones are sent as messages of the user.
    First,
    /// Nowhere. Their text is put before that of the first message of the user.
    Never,
}

/// The rule for the field `reasoning_content` of replies, and for others of the same meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningField {
    /// As the log has it, for the provider that made the reply.
    #[default]
    OfMaker,
    /// As the log has it, for the provider that made the reply. Every reply of another maker has one if it has tool
    /// calls. It may be empty.
    RequiredOfOthers,
    /// Every reply with tool calls has one. It may be empty.
    Required,
    /// The field is refused.
    Refused,
}

/// The ids that tool calls may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallIdForm {
    /// Any id.
    #[default]
    Any,
    /// At most 64 characters.
    AtMost64,
    /// At most 64 ASCII letters, digits, hyphens and underscores.
    Plain64,
    /// At most 40 ASCII letters, digits, hyphens and underscores.
    Plain40,
    /// Exactly 9 ASCII letters and digits.
    Alphanumeric9,
}

/// The media that a prompt may have. The oldest ones that exceed a limit are sent as a placeholder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MediaCompat {
    /// The largest number of images. Documents count as images, as Anthropic counts them. 0 stands for a reader that
    /// takes no images.
    #[serde(skip_serializing_if = "is_default")]
    pub images: Option<u32>,
    /// The longest side of an image in pixels, if there are [many](Self::many_images).
    #[serde(skip_serializing_if = "is_default")]
    pub pixels: Option<u32>,
    /// The number of images from which on [`pixels`](Self::pixels) applies. `None` stands for any number.
    #[serde(skip_serializing_if = "is_default")]
    pub many_images: Option<u32>,
    /// True if documents and audio are refused.
    #[serde(skip_serializing_if = "is_default")]
    pub only_images: bool,
    /// The largest size of the media that a request has inline, in bytes as they are sent (base64).
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: Option<u64>,
}

/// The maker of a message, as its reader sees it.
///
/// Providers add fields to replies that only they accept, such as `reasoning_content`. Such fields are sent to their
/// maker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MadeBy {
    /// The reader itself.
    Reader,
    /// It isn't known who made the message, or who reads it. The fields are sent.
    Unknown,
    /// Somebody else. The fields are left out.
    Other,
}

impl Compat {
    /// Creates the description of a reader that accepts everything.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            system: SystemMessages::Anywhere,
            no_developer: false,
            alternates: false,
            begins_with_user: false,
            text_content: false,
            plain_fields: false,
            reasoning: ReasoningField::OfMaker,
            call_ids: CallIdForm::Any,
            calls_need_tools: false,
            single_calls: false,
            media: MediaCompat::new(),
        }
    }

    /// Returns `true` if the reader accepts everything.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the key under which a [provenance](crate::Provenance::reader) names this reader: a digest of the flags.
    /// `None` if the reader accepts everything.
    #[must_use]
    pub fn key(&self) -> Option<Digest> {
        if self.is_default() {
            return None;
        }
        // The flags that aren't set are left out, so a new flag changes no key.
        serde_json::to_vec(self).ok().map(|flags| Digest::of(&flags))
    }

    /// Returns what both readers accept.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            system: self.system.max(other.system),
            no_developer: self.no_developer || other.no_developer,
            alternates: self.alternates || other.alternates,
            begins_with_user: self.begins_with_user || other.begins_with_user,
            text_content: self.text_content || other.text_content,
            plain_fields: self.plain_fields || other.plain_fields,
            reasoning: self.reasoning.max(other.reasoning),
            call_ids: self.call_ids.max(other.call_ids),
            calls_need_tools: self.calls_need_tools || other.calls_need_tools,
            single_calls: self.single_calls || other.single_calls,
            media: self.media.and(other.media),
        }
    }
}

/// Flags that are set one after the other.
impl Compat {
    /// Sets where system messages may be.
    #[must_use]
    pub const fn system(mut self, system: SystemMessages) -> Self {
        self.system = system;
        self
    }

    /// Sets whether replies have reasoning.
    #[must_use]
    pub const fn reasoning(mut self, reasoning: ReasoningField) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// Sets the ids that tool calls may have.
    #[must_use]
    pub const fn call_ids(mut self, form: CallIdForm) -> Self {
        self.call_ids = form;
        self
    }

    /// Sets the media that a prompt may have.
    #[must_use]
    pub const fn media(mut self, media: MediaCompat) -> Self {
        self.media = media;
        self
    }

    /// Says that the role `developer` is refused.
    #[must_use]
    pub const fn no_developer(mut self) -> Self {
        self.no_developer = true;
        self
    }

    /// Says that messages of the user and replies must alternate.
    #[must_use]
    pub const fn alternates(mut self) -> Self {
        self.alternates = true;
        self
    }

    /// Says that the first message must be one of the user.
    #[must_use]
    pub const fn begins_with_user(mut self) -> Self {
        self.begins_with_user = true;
        self
    }

    /// Says that the content of a message must be a text.
    #[must_use]
    pub const fn text_content(mut self) -> Self {
        self.text_content = true;
        self
    }

    /// Says that fields that the format does not define are refused.
    #[must_use]
    pub const fn plain_fields(mut self) -> Self {
        self.plain_fields = true;
        self
    }

    /// Says that tool calls are refused in a request without tools.
    #[must_use]
    pub const fn calls_need_tools(mut self) -> Self {
        self.calls_need_tools = true;
        self
    }

    /// Says that a reply may have only one tool call.
    #[must_use]
    pub const fn single_calls(mut self) -> Self {
        self.single_calls = true;
        self
    }
}

impl MediaCompat {
    /// Creates the description of a reader that accepts all media.
    #[must_use]
    pub const fn new() -> Self {
        Self { images: None, pixels: None, many_images: None, only_images: false, bytes: None }
    }

    /// Sets the largest number of images.
    #[must_use]
    pub const fn images(mut self, most: u32) -> Self {
        self.images = Some(most);
        self
    }

    /// Sets the longest side of an image in pixels, in a prompt with at least this many images.
    #[must_use]
    pub const fn pixels(mut self, most: u32, from_images: u32) -> Self {
        self.pixels = Some(most);
        self.many_images = Some(from_images);
        self
    }

    /// Says that documents and audio are refused.
    #[must_use]
    pub const fn only_images(mut self) -> Self {
        self.only_images = true;
        self
    }

    /// Sets the largest size of the media that a request has inline, in bytes.
    #[must_use]
    pub const fn bytes(mut self, most: u64) -> Self {
        self.bytes = Some(most);
        self
    }
}

impl MediaCompat {
    fn and(self, other: Self) -> Self {
        Self {
            images: least(self.images, other.images),
            pixels: least(self.pixels, other.pixels),
            many_images: match (self.pixels, other.pixels) {
                (Some(_), None) => self.many_images,
                (None, Some(_)) => other.many_images,
                // Without a number, the limit applies to any number of images.
                _ => self.many_images.zip(other.many_images).map(|(one, other)| one.min(other)),
            },
            only_images: self.only_images || other.only_images,
            bytes: least(self.bytes, other.bytes),
        }
    }
}

impl CallIdForm {
    /// Returns `true` if an id has this form.
    #[must_use]
    pub fn accepts(self, id: &str) -> bool {
        let is_plain = || id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        match self {
            Self::Any => true,
            Self::AtMost64 => id.len() <= 64 || id.chars().count() <= 64,
            Self::Plain64 => id.len() <= 64 && is_plain(),
            Self::Plain40 => id.len() <= 40 && is_plain(),
            Self::Alphanumeric9 => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }

    /// Returns the id in this form. An id of another form is replaced by a digest of it, so a call and its result get
    /// the same one.
    #[must_use]
    pub fn fit(self, id: &str) -> Cow<'_, str> {
        if self.accepts(id) {
            return Cow::Borrowed(id);
        }
        let mut rest = u64::from_be_bytes(Digest::of(id.as_bytes()).bytes());
        let mut made = String::from(if self == Self::Alphanumeric9 { "" } else { "call_" });
        for _ in 0..9 {
            let digit = usize::try_from(rest % 62).unwrap_or_default();
            made.extend(ALPHANUMERICS.chars().nth(digit));
            rest /= 62;
        }
        Cow::Owned(made)
    }
}

const ALPHANUMERICS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the smaller one of two limits.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMS: [CallIdForm; 5] =
        [CallIdForm::Any, CallIdForm::AtMost64, CallIdForm::Plain64, CallIdForm::Plain40, CallIdForm::Alphanumeric9];

    #[test]
    fn flags_are_data_and_only_those_that_are_set_are_written() {
        assert_eq!(serde_json::to_string(&Compat::new()).unwrap(), "{}");
        let json = r#"{"system":"never","alternates":true,"call_ids":"alphanumeric9","media":{"images":5}}"#;
        let compat: Compat = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&compat).unwrap(), json);
        assert!(serde_json::from_str::<Compat>(r#"{"alternate":true}"#).is_err(), "an unknown flag");
        assert_eq!(Compat::new(), Compat::default());
        assert_eq!(Compat::new().key(), None);
        assert_ne!(compat.key(), Compat { alternates: false, ..compat }.key());
    }

    #[test]
    fn two_readers_accept_what_both_accept() {
        let one = Compat { system: SystemMessages::Never, no_developer: true, ..Compat::new() };
        let media = MediaCompat { images: Some(5), ..MediaCompat::default() };
        let other = Compat { system: SystemMessages::First, single_calls: true, media, ..Compat::new() };
        let both = one.and(&other);
        assert_eq!(both, Compat { single_calls: true, media, ..one });
        assert_eq!(both, other.and(&one));
        assert_eq!(both.and(&Compat::new()), both);
    }

    proptest! {
        #[test]
        fn an_id_gets_the_form_and_stays_if_it_has_it(
            id in prop_oneof!["[a-zA-Z0-9_.:|-]{0,12}", "[a-zA-Z0-9]{9}", "[ä-ö]{60,70}", "[a-z_=]{30,400}"],
            other in "[a-z_:]{1,90}",
        ) {
            for form in FORMS {
                let fit = form.fit(&id);
                prop_assert!(form.accepts(&fit) || id.is_empty() && form.accepts(""), "{form:?} {fit}");
                prop_assert_eq!(fit == id, form.accepts(&id));
                prop_assert_eq!(form.fit(&fit), fit.clone(), "it stays the same");
                prop_assert!(other == id || form.fit(&other) != fit, "other ids get others");
            }
        }
    }
}

//! The parts of a message, as readers see them in all dialects.

use std::{borrow::Cow, fmt};

use super::{CallId, ToolCall};

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

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sized = |name: &str, text: &str| write!(f, "{name}({} bytes)", text.len());
        match self {
            Self::Name(text) => sized("Name", text),
            Self::Text(text) => sized("Text", text),
            Self::Refusal(text) => sized("Refusal", text),
            Self::Reasoning(text) => sized("Reasoning", text),
            Self::Other { text, .. } => sized("Other", text),
            Self::OtherCall { arguments, .. } => sized("OtherCall", arguments),
            Self::Result { call, text } => write!(f, "Result({call:?}, {} bytes)", text.len()),
            Self::Sealed(bytes) => write!(f, "Sealed({bytes} bytes)"),
            Self::Call(call) => call.fmt(f),
            Self::Media { media, .. } => media.fmt(f),
        }
    }
}

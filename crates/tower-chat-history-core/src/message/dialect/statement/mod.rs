//! The statements of messages: what they say, without the form of a provider.
//!
//! A translation reads the statements of messages of one dialect, and writes them in another one. So each dialect has
//! two functions, and not one for each other dialect.

mod arguments;
mod default;
mod id;
mod left_out;
mod media;

use std::borrow::Cow;

pub(crate) use self::id::Place;
pub use self::{arguments::StatedCall, id::StatedId, left_out::LeftOut, media::Source};
pub(super) use self::{
    default::{express, of_parts},
    media::{as_note, data_url, image_url, is_data, of_url},
};
use super::Media;
use crate::provenance::Origin;

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

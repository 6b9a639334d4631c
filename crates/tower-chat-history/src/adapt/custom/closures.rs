//! The closures of a [`Custom`](super::Custom) adapter: they split and fill requests, and find replies.

use std::{fmt, sync::Arc};

use tower_chat_history_core::{ForeignShape, Message};

use crate::{
    call::{Flow, FoldReply, Reply},
    error::BoxError,
    report::ResponseShape,
};

/// Returns the new messages of a request.
pub(super) type Input<R> = Arc<dyn Fn(&R) -> Result<Vec<Message>, BoxError> + Send + Sync>;

/// Makes the inner service's request from the caller's request and the history.
pub(super) type Fill<R, Q> = Arc<dyn Fn(R, &[Message]) -> Result<Q, BoxError> + Send + Sync>;

/// Returns the field with head, history and input.
pub(super) type Field<R> = Arc<dyn Fn(&mut R) -> &mut Vec<Message> + Send + Sync>;

/// Finds the reply in a whole response.
pub(super) type Whole<Res> = Arc<dyn Fn(&Res) -> Reply + Send + Sync>;

/// The input of a call, as closures return it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as the input of a call",
    note = "return a `Message`, a `Vec` or an array of them, or a `Result` of one of these"
)]
pub trait IntoInput {
    /// Returns the messages.
    ///
    /// # Errors
    ///
    /// The error that the closure returned instead of messages.
    fn into_input(self) -> Result<Vec<Message>, BoxError>;
}

impl IntoInput for Message {
    fn into_input(self) -> Result<Vec<Message>, BoxError> {
        Ok(vec![self])
    }
}

impl IntoInput for Vec<Message> {
    fn into_input(self) -> Result<Vec<Message>, BoxError> {
        Ok(self)
    }
}

impl<const N: usize> IntoInput for [Message; N] {
    fn into_input(self) -> Result<Vec<Message>, BoxError> {
        Ok(self.into())
    }
}

impl<T: IntoInput, E: Into<BoxError>> IntoInput for Result<T, E> {
    fn into_input(self) -> Result<Vec<Message>, BoxError> {
        self.map_err(Into::into)?.into_input()
    }
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}

/// Makes an empty reply of `None`. Nothing is then stored, and the report has
/// [`NotStored::NoReply`](crate::report::NotStored::NoReply).
impl From<Option<Message>> for Reply {
    fn from(message: Option<Message>) -> Self {
        message.map_or_else(Self::default, Self::new)
    }
}

/// Makes an empty reply of `None`. Nothing is then stored.
impl From<Option<Self>> for Reply {
    fn from(reply: Option<Self>) -> Self {
        reply.unwrap_or_default()
    }
}

/// A closure that makes the fold of a stream's reply.
#[derive(Clone, Copy)]
pub struct Folds<F>(pub(super) F);

/// Removes the reply's message if it is in another API's format. If it were stored, its tool calls would not be
/// found, and the input that answers these calls would be refused.
pub(super) fn own_format(mut reply: Reply) -> Reply {
    if let Some(shape) = reply.messages.iter().find_map(Message::foreign_shape) {
        reply.messages.clear();
        reply.unreadable = Some(match shape {
            ForeignShape::AnthropicBlock(_) => ResponseShape::AnthropicMessage,
            ForeignShape::ResponsesPart(_) => ResponseShape::OpenAiResponse,
            ForeignShape::ConverseBlock(_) => ResponseShape::BedrockConverse,
            ForeignShape::GeminiParts => ResponseShape::GeminiResponse,
            _ => ResponseShape::NoMessage,
        });
    }
    reply
}

/// A fold that applies [`own_format`] to its replies.
pub(super) struct OwnFormat<W>(pub(super) W);

impl<T, W: FoldReply<T>> FoldReply<T> for OwnFormat<W> {
    fn push(&mut self, item: &T) -> Flow {
        self.0.push(item)
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    fn reply(&self) -> Reply {
        own_format(self.0.reply())
    }

    /// Returns `None` if `own_format` removes the message.
    fn partial(&self) -> Option<Reply> {
        self.0.partial().map(own_format).filter(|reply| !reply.messages.is_empty())
    }
}

impl<F> fmt::Debug for Folds<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folds").finish_non_exhaustive()
    }
}

//! The closures of a [`Custom`](super::Custom) adapter: they split and fill requests, and find replies.

use std::{fmt, ops::Range};

use crate::context::InputMode;
use tower_chat_history_core::{ForeignShape, Message};

use crate::{
    adapt::{ModelRequest, RequestMessages},
    call::{Flow, FoldReply, Reply},
    error::BoxError,
    report::ResponseShape,
};

/// Splits and fills requests of type `R`, with the closures of a [`Custom`](super::Custom) adapter.
#[diagnostic::on_unimplemented(
    message = "the adapter does not say how to put the history into a request of type `{R}`",
    note = "call `fill` or `try_fill` after `Custom::new`"
)]
pub trait Shape<R> {
    /// The request type of the inner service.
    type Request;

    /// Returns the messages of the request. If one field contains all messages, the head is the instructions and
    /// `few_shot_messages` messages after them.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be converted to messages.
    fn split(&self, request: &mut R, few_shot_messages: usize) -> Result<RequestMessages, BoxError>;

    /// Returns the request with its history, which replaces the messages that the request
    /// [resends](RequestMessages::transcript_range).
    ///
    /// # Errors
    ///
    /// Returns an error if the request type cannot represent the history.
    fn fill(
        &self,
        request: R,
        resent: Range<usize>,
        window: &[Message],
    ) -> Result<ModelRequest<Self::Request>, BoxError>;
}

/// Two closures: one returns the input, the other inserts the history.
#[derive(Clone, Copy)]
pub struct Parts<I, F> {
    pub(super) input: I,
    pub(super) fill: F,
}

/// A closure that inserts the history.
#[derive(Clone, Copy)]
pub struct Fill<F>(pub(super) F);

/// A closure that inserts the history, or returns an error.
#[derive(Clone, Copy)]
pub struct TryFill<F>(pub(super) F);

/// A closure that returns the field with head, history and input.
#[derive(Clone, Copy)]
pub struct AllMessages<F> {
    pub(super) field: F,
    pub(super) mode: InputMode,
}

impl<R, I, T, F, Q> Shape<R> for Parts<I, Fill<F>>
where
    I: Fn(&R) -> T,
    T: IntoInput,
    F: Fn(R, &[Message]) -> Q,
{
    type Request = Q;

    fn split(&self, request: &mut R, _: usize) -> Result<RequestMessages, BoxError> {
        Ok(RequestMessages::new_input((self.input)(request).into_input()?))
    }

    fn fill(&self, request: R, _: Range<usize>, window: &[Message]) -> Result<ModelRequest<Q>, BoxError> {
        Ok(ModelRequest::new((self.fill.0)(request, window), 0))
    }
}

impl<R, I, T, F, Q, E> Shape<R> for Parts<I, TryFill<F>>
where
    I: Fn(&R) -> T,
    T: IntoInput,
    F: Fn(R, &[Message]) -> Result<Q, E>,
    E: Into<BoxError>,
{
    type Request = Q;

    fn split(&self, request: &mut R, _: usize) -> Result<RequestMessages, BoxError> {
        Ok(RequestMessages::new_input((self.input)(request).into_input()?))
    }

    fn fill(&self, request: R, _: Range<usize>, window: &[Message]) -> Result<ModelRequest<Q>, BoxError> {
        (self.fill.0)(request, window).map(|request| ModelRequest::new(request, 0)).map_err(Into::into)
    }
}

impl<R, F> Shape<R> for AllMessages<F>
where
    F: Fn(&mut R) -> &mut Vec<Message>,
{
    type Request = R;

    fn split(&self, request: &mut R, few_shot_messages: usize) -> Result<RequestMessages, BoxError> {
        Ok(RequestMessages::split((self.field)(request).clone(), few_shot_messages, self.mode))
    }

    fn fill(&self, mut request: R, resent: Range<usize>, window: &[Message]) -> Result<ModelRequest<R>, BoxError> {
        let messages = (self.field)(&mut request);
        // The closure may return another field than before. That must not cause a panic.
        let resent = resent.start.min(messages.len())..resent.end.min(messages.len());
        messages.splice(resent, window.iter().cloned());
        Ok(ModelRequest::new(request, 0))
    }
}

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

impl<I, F> fmt::Debug for Parts<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Fill<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fill").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for TryFill<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryFill").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for AllMessages<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllMessages").finish_non_exhaustive()
    }
}

/// A closure that finds the reply in a whole response.
#[derive(Clone, Copy)]
pub struct Whole<F>(pub(super) F);

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

impl<F> fmt::Debug for Whole<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Folds<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folds").finish_non_exhaustive()
    }
}

//! The closures of a [`Custom`](super::Custom) adapter that split and fill requests.

use std::{fmt, ops::Range};

use tower_chat_history_context::InputMode;
use tower_chat_history_core::Message;

use crate::{
    adapt::{Completed, RequestMessages},
    error::BoxError,
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
    fn fill(&self, request: R, resent: Range<usize>, window: &[Message]) -> Result<Completed<Self::Request>, BoxError>;
}

/// Two closures: one returns the input, the other inserts the history.
#[derive(Clone, Copy)]
pub struct Parts<I, F> {
    pub(super) input: I,
    pub(super) fill: F,
}

/// A closure that inserts the history.
#[derive(Clone, Copy)]
pub struct Filling<F>(pub(super) F);

/// A closure that inserts the history, or returns an error.
#[derive(Clone, Copy)]
pub struct TryFilling<F>(pub(super) F);

/// A closure that returns the field with head, history and input.
#[derive(Clone, Copy)]
pub struct AllMessages<F> {
    pub(super) field: F,
    pub(super) mode: InputMode,
}

impl<R, I, T, F, Q> Shape<R> for Parts<I, Filling<F>>
where
    I: Fn(&R) -> T,
    T: IntoInput,
    F: Fn(R, &[Message]) -> Q,
{
    type Request = Q;

    fn split(&self, request: &mut R, _: usize) -> Result<RequestMessages, BoxError> {
        Ok(RequestMessages::new_input((self.input)(request).into_input()?))
    }

    fn fill(&self, request: R, _: Range<usize>, window: &[Message]) -> Result<Completed<Q>, BoxError> {
        Ok(Completed::new((self.fill.0)(request, window), 0))
    }
}

impl<R, I, T, F, Q, E> Shape<R> for Parts<I, TryFilling<F>>
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

    fn fill(&self, request: R, _: Range<usize>, window: &[Message]) -> Result<Completed<Q>, BoxError> {
        (self.fill.0)(request, window).map(|request| Completed::new(request, 0)).map_err(Into::into)
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

    fn fill(&self, mut request: R, resent: Range<usize>, window: &[Message]) -> Result<Completed<R>, BoxError> {
        let messages = (self.field)(&mut request);
        // The closure may return another field than before. That must not cause a panic.
        let resent = resent.start.min(messages.len())..resent.end.min(messages.len());
        messages.splice(resent, window.iter().cloned());
        Ok(Completed::new(request, 0))
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

impl<I, F> fmt::Debug for Parts<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Filling<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for TryFilling<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryFilling").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for AllMessages<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllMessages").finish_non_exhaustive()
    }
}

//! What history needs to know of a request and a response: three small traits for adapters.
//!
//! An adapter is a value that knows one provider's (or one program's) types. It is given to the
//! [layer](crate::ChatHistoryLayer) beside the store. [`AdaptRequest`] opens a request into what the engine needs and a
//! [`Draft`] that can still be completed; [`ReadResponse`] finds the reply in a response, or folds it from a stream by
//! [`FoldReply`]. Which of its `ReadResponse` impls is used follows from the inner service's response type, so one
//! adapter serves unary and streaming services.
//!
//! Most programs need not write one: [`Json`] adapts requests in the chat-completions format as `serde_json::Value`, and
//! [`custom`] makes an adapter for a program's own types from closures. Where a call belongs is found by an extractor, the
//! same for all adapters of values and structs: see [`extract`].

pub mod custom;
pub mod extract;
mod json;
mod read;
mod recorded;

use std::fmt;

use tower_chat_history_core::Message;

pub use self::{
    custom::Custom,
    extract::{CallScope, ExtractScope, IntoCallScope},
    json::{Json, JsonDraft, JsonRequestError},
    read::{Read, ReadResponse},
    recorded::{to_json_body, to_json_response},
};
pub use crate::call::{Flow, FoldReply};
#[doc(inline)]
pub use crate::completion;
use crate::{call::TurnInput, engine::Turn, error::BoxError};
pub use tower_chat_history_context::request::RequestMessages;
#[doc(inline)]
pub use tower_chat_history_core::nested;

/// Opens requests of type `R`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot adapt requests of type `{R}`",
    note = "adapters say what they adapt in their docs; the OpenAI adapter takes `InConversation<CreateChatCompletionRequest>`"
)]
pub trait AdaptRequest<R> {
    /// What the inner service takes.
    type Request;
    /// A request that waits for its history.
    type Draft: Draft<Request = Self::Request>;

    /// Says whether a request belongs to a conversation, and takes it apart if so.
    ///
    /// # Errors
    ///
    /// Any error is handed to the caller; neither store nor model have been called.
    fn open(&self, request: R) -> impl Future<Output = Result<Opened<Self::Draft, Self::Request>, BoxError>> + Send;
}

/// An opened request. `Debug` shows no request.
#[allow(clippy::large_enum_variant)] // It is taken apart where it is returned.
pub enum Opened<D, R> {
    /// A call in a conversation.
    Turn(TurnInput, D),
    /// Anything else: it is passed on untouched, and so is its response.
    PassThrough(R),
}

/// A request that waits for its history.
pub trait Draft {
    /// What the inner service takes.
    type Request;

    /// Completes the request: its own head, then the window, then its own input. Nothing else of it changes, but its own limit
    /// of the reply if the prompt [says so](Prompt::reply_limit).
    ///
    /// # Errors
    ///
    /// Any error is handed to the caller, and the model is not called. What the request's types cannot carry is no error:
    /// it is left out and counted in [`Completed::downgraded`].
    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<Self::Request>, BoxError>;
}

/// What history adds to a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// The messages of the log to send, between the request's own head and input.
    pub window: &'a [Message],
    /// What the request's own limit of the reply has to be lowered to, in tokens, so that the reply fits behind the prompt.
    /// `None` leaves it as it is.
    pub reply_limit: Option<u32>,
}

impl<'a> Prompt<'a> {
    /// These messages of the log, and nothing else.
    #[must_use]
    pub const fn new(window: &'a [Message]) -> Self {
        Self { window, reply_limit: None }
    }

    /// What a turn sends.
    #[must_use]
    pub fn of(turn: &'a Turn) -> Self {
        Self { window: turn.window(), reply_limit: turn.reply_limit() }
    }
}

/// A request as the inner service takes it. `Debug` does not show it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Completed<R> {
    /// The request.
    pub request: R,
    /// How many of the window's messages could not be carried whole.
    pub downgraded: usize,
}

impl<R> Completed<R> {
    /// A request that carries the window whole, but for `downgraded` of its messages.
    pub const fn new(request: R, downgraded: usize) -> Self {
        Self { request, downgraded }
    }
}

// By hand: most request types show their text.
impl<D: fmt::Debug, R> fmt::Debug for Opened<D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(input, draft) => f.debug_tuple("Turn").field(input).field(draft).finish(),
            Self::PassThrough(_) => f.debug_tuple("PassThrough").finish_non_exhaustive(),
        }
    }
}

impl<R> fmt::Debug for Completed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed").field("downgraded", &self.downgraded).finish_non_exhaustive()
    }
}

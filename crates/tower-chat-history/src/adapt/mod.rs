//! Adapters: the traits that tell the layer about request and response types.
//!
//! An adapter is a value that knows the types of one client. The [layer](crate::ChatHistoryLayer) takes one,
//! together with a store. Most programs need not write one:
//!
//! - [`Json`] adapts requests in the chat-completions format that are `serde_json::Value`s.
//! - [`custom`] makes an adapter for a program's own types from closures.
//! - The guide [writing an adapter](writing_an_adapter) shows a complete adapter for types of your own.
//!
//! [`AdaptRequest`] takes a request apart into the turn's input and a [`Draft`], which is completed once the
//! history is loaded. [`ReadResponse`] finds the reply in a response, or folds it from a stream with
//! [`FoldReply`]. An adapter can implement `ReadResponse` for several response types. The inner service's
//! response type selects the implementation, so one adapter serves unary and streaming services.
//!
//! An [extractor](extract) finds the conversation of a call. The extractors are the same for all adapters.

pub mod custom;
pub mod extract;
mod json;
mod read;
mod recorded;

#[doc = include_str!("../../docs/writing-an-adapter.md")]
#[doc = "```"]
#[doc = include_str!("../../docs/writing_an_adapter.rs")]
#[doc = "```"]
#[doc = include_str!("../../docs/writing-an-adapter-steps.md")]
#[doc = "```rust,ignore"]
#[doc = include_str!("../../docs/writing_an_adapter_test.rs")]
#[doc = "```"]
pub mod writing_an_adapter {}

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
pub use tower_chat_history_context::RequestMessages;
#[doc(inline)]
pub use tower_chat_history_core::nested;

/// Takes requests of type `R` apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot adapt requests of type `{R}`",
    note = "the documentation of an adapter names its request type; \
            the OpenAI adapter takes `InConversation<CreateChatCompletionRequest>`"
)]
pub trait AdaptRequest<R> {
    /// The request type of the inner service.
    type Request;
    /// A request that waits for its history.
    type Draft: Draft<Request = Self::Request>;

    /// Checks whether a request belongs to a conversation, and takes it apart if it does.
    ///
    /// # Errors
    ///
    /// Any error. The caller gets it. Neither the store nor the model has been called.
    fn open(&self, request: R) -> impl Future<Output = Result<Opened<Self::Draft, Self::Request>, BoxError>> + Send;
}

/// An opened request. Its `Debug` output does not contain the request.
#[allow(clippy::large_enum_variant)] // It is taken apart where it is returned.
pub enum Opened<D, R> {
    /// A call in a conversation.
    Turn(TurnInput, D),
    /// A stateless call. The request is passed on unchanged, and so is its response.
    PassThrough(R),
}

/// A request that waits for its history.
pub trait Draft {
    /// The request type of the inner service.
    type Request;

    /// Completes the request: its own head, then the window, then its own input. If [`Prompt::reply_limit`] is
    /// set, the request's own reply limit is lowered to it. Nothing else changes.
    ///
    /// # Errors
    ///
    /// Any error. The caller gets it, and the model is not called. Do not fail because of messages that the
    /// request's types cannot carry whole: carry what they can, and count these messages in
    /// [`Completed::downgraded`].
    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<Self::Request>, BoxError>;
}

/// The history to add to a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// The messages of the log to send, between the request's own head and input.
    pub window: &'a [Message],
    /// The value, in tokens, to which the request's own reply limit must be lowered, so that prompt and reply
    /// fit the context window. `None` leaves that limit unchanged.
    pub reply_limit: Option<u32>,
}

impl<'a> Prompt<'a> {
    /// Returns a prompt with this window and without a reply limit.
    #[must_use]
    pub const fn new(window: &'a [Message]) -> Self {
        Self { window, reply_limit: None }
    }

    /// Returns the prompt that a turn sends.
    #[must_use]
    pub fn of(turn: &'a Turn) -> Self {
        Self { window: turn.window(), reply_limit: turn.reply_limit() }
    }
}

/// A request for the inner service. Its `Debug` output does not contain the request.
#[derive(Clone)]
#[non_exhaustive]
pub struct Completed<R> {
    /// The request.
    pub request: R,
    /// The number of messages in the window that the request does not carry whole.
    pub downgraded: usize,
}

impl<R> Completed<R> {
    /// Returns a completed request, which carries all but `downgraded` messages of the window whole.
    pub const fn new(request: R, downgraded: usize) -> Self {
        Self { request, downgraded }
    }
}

// Not derived, because most request types show their text.
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

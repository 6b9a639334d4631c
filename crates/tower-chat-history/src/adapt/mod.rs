//! Adapters: values that describe the request and response types of one client to the layer.
//!
//! A [layer](crate::ChatHistoryLayer) is created with a store and an adapter. Most programs do not write an adapter:
//!
//! - [`Json`] adapts requests in the chat-completions format that are `serde_json::Value`s.
//! - [`custom`] makes an adapter for a program's own types from closures.
//! - `HttpHistory` of the module `http` (feature `http`) adapts HTTP requests, and `OpenAi` of the crate
//!   `tower-chat-history-openai` those of async-openai.
//! - The guide [writing an adapter](writing_an_adapter) shows a complete adapter for types of your own.
//!
//! [`AdaptRequest`] splits a request into the turn's input and a [`Draft`]. After the history is loaded, the draft is
//! completed into the request for the inner service. [`ReadResponse`] finds the reply in a response, or assembles it
//! from a stream with [`FoldReply`]. An adapter can implement `ReadResponse` for several response types. The inner
//! service's response type selects the implementation, so one adapter serves unary and streaming services.
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

#[cfg(feature = "http")]
pub(crate) use self::read::HEAD_TIMEOUT;
pub use self::{
    custom::Custom,
    extract::{CallScope, ExtractScope, IntoCallScope},
    json::{Json, JsonDraft, JsonRequestError},
    read::{CallFacts, ReadResponse, Reading, first_item, within},
    recorded::{to_json_body, to_json_response},
};
pub use crate::call::{Flow, FoldReply, ReadBy};
#[doc(inline)]
pub use crate::completion;
pub use crate::context::RequestMessages;
use crate::{call::TurnInput, engine::Turn, error::BoxError};
#[doc(inline)]
pub use tower_chat_history_core::nested;

/// Splits a request of type `R` into the turn's input and a [`Draft`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot adapt requests of type `{R}`",
    note = "the documentation of an adapter names its request type; \
            the OpenAI adapter takes `InConversation<CreateChatCompletionRequest>`",
    note = "an adapter that begins with `Custom::new` also needs `fill` or `try_fill`"
)]
pub trait AdaptRequest<R> {
    /// The request type of the inner service.
    type Request;
    /// A request that waits for its history.
    type Draft: Draft<Request = Self::Request>;

    /// Splits a request into its input and its draft, if it belongs to a conversation. Returns a stateless request
    /// unchanged.
    ///
    /// # Errors
    ///
    /// Returns any error, for example if the request names no conversation or its messages cannot be read. The call
    /// fails with this error before the store and the model are called.
    fn open(
        &self,
        request: R,
    ) -> impl Future<Output = Result<OpenedRequest<Self::Draft, Self::Request>, BoxError>> + Send;
}

/// The result of [`AdaptRequest::open`]. Its `Debug` output does not contain the request.
#[allow(clippy::large_enum_variant)] // Values are short-lived: callers destructure them immediately.
pub enum OpenedRequest<D, R> {
    /// A call in a conversation: the turn's input, and the request that waits for its history.
    Turn(TurnInput, D),
    /// A stateless call. The request is passed on unchanged, and so is its response.
    PassThrough(R),
}

/// A request that waits for its history.
pub trait Draft {
    /// The request type of the inner service.
    type Request;

    /// Inserts the window into the request, between the request's own head and input. If [`Prompt::reply_limit`] is
    /// set, also lowers the request's own reply limit to this value. Leaves out the beginning of the head if
    /// [`Prompt::left_out_of_head`] says so, and adds [`Prompt::stub_tool`]. Changes nothing else.
    ///
    /// # Errors
    ///
    /// Returns any error. The call then fails with this error before the model is called. If the request's types
    /// cannot represent a message completely, do not return an error: insert the parts that they can represent, and
    /// count the message in [`ModelRequest::downgraded`]. The exception is a part without which
    /// [`Prompt::provider`] refuses the request.
    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Self::Request>, BoxError>;

    /// Returns a copy of this draft, from which the request can be made once more with a [`Remedy`](crate::refusal::Remedy). The default is
    /// `None`: the call is then never repeated.
    fn again(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// The history to add to a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// The messages to send between the request's own head and input: the summary, if there is one, and the messages
    /// of the log.
    pub window: &'a [Message],
    /// The value, in tokens, to which the request's own reply limit must be lowered. Otherwise prompt and reply would
    /// not fit the context window together. `None` leaves the request's limit unchanged.
    pub reply_limit: Option<u32>,
    /// The provider that is [called](crate::HistoryOptions::origin), or, if it is not known, the one that made the newest
    /// reply of which the provider is recorded.
    pub provider: Option<&'a str>,
    /// The number of messages at the beginning of the request's own head that are left out, because the reader takes
    /// no [system messages](crate::compat::SystemMessages::Never). The window begins with what they say.
    pub left_out_of_head: usize,
    /// The JSON of a tool to add to a request without tools, because the reader [refuses the calls](crate::compat::Compat::calls_need_tools)
    /// of the window otherwise.
    pub stub_tool: Option<&'static str>,
}

impl<'a> Prompt<'a> {
    /// Returns a prompt with this window, without a reply limit, for an unknown provider.
    #[must_use]
    pub const fn new(window: &'a [Message]) -> Self {
        Self { window, reply_limit: None, provider: None, left_out_of_head: 0, stub_tool: None }
    }

    /// Returns the prompt that a turn sends.
    #[must_use]
    pub fn of(turn: &'a Turn) -> Self {
        Self {
            window: turn.window(),
            reply_limit: turn.reply_limit(),
            provider: turn.provider(),
            left_out_of_head: turn.left_out_of_head(),
            stub_tool: turn.stub_tool(),
        }
    }
}

/// A request for the inner service. Its `Debug` output does not contain the request.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelRequest<R> {
    /// The request.
    pub request: R,
    /// The number of messages of the window that the request contains only in part.
    pub downgraded: usize,
}

impl<R> ModelRequest<R> {
    /// Returns a completed request. It contains `downgraded` messages of the window only in part.
    pub const fn new(request: R, downgraded: usize) -> Self {
        Self { request, downgraded }
    }
}

// Not derived, because most request types show their text.
impl<D: fmt::Debug, R> fmt::Debug for OpenedRequest<D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(input, draft) => f.debug_tuple("Turn").field(input).field(draft).finish(),
            Self::PassThrough(_) => f.debug_tuple("PassThrough").finish_non_exhaustive(),
        }
    }
}

impl<R> fmt::Debug for ModelRequest<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest").field("downgraded", &self.downgraded).finish_non_exhaustive()
    }
}

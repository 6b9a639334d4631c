//! Extractors: values that find the conversation of a call.
//!
//! There is no default conversation. A call names its conversation or is marked as stateless; otherwise it fails with
//! [`MissingConversation`](crate::MissingConversation) before the store and the model are called. Every adapter has an
//! [extractor](ExtractScope) for this:
//!
//! | extractor | the call is | set by |
//! |---|---|---|
//! | [`Envelope`] | [`InConversation<R>`], or [`InConversation::stateless`] | default |
//! | [`IdFrom`] | `R`; a closure returns the id | `id_from(closure)` |
//! | [`FromTask`] | `R`, within [`in_conversation`] or [`stateless()`] | `id_from_task()` |
#![cfg_attr(
    feature = "http",
    doc = "| [`FromExtensions`] (feature `http`) | `http::Request<B>`, with an extension | `extract_by(FromExtensions::new())` |",
    doc = "| [`FromHeader`] (feature `http`) | `http::Request<B>`, with a header | `extract_by(FromHeader::new(name))` |"
)]
#![cfg_attr(
    not(feature = "http"),
    doc = "| `FromExtensions` (feature `http`) | `http::Request<B>`, with an extension | `extract_by(FromExtensions::new())` |",
    doc = "| `FromHeader` (feature `http`) | `http::Request<B>`, with a header | `extract_by(FromHeader::new(name))` |"
)]
//!
//! The extractor is part of the adapter's type and determines the type of its calls. Each adapter accepts exactly one
//! type of call, so the request type of a service is never ambiguous to the compiler.
//!
//! ```
//! use serde_json::{Value, json};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use tower_chat_history::{BoxError, ChatHistoryLayer, ConversationId, MemoryStore, adapt::Json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let llm = tower::service_fn(|request: Value| async move {
//! #     let count = request["messages"].as_array().map_or(0, Vec::len);
//! #     Ok::<_, std::io::Error>(json!({"choices": [{"message": {"role": "assistant", "content": count}}]}))
//! # });
//! let adapter = Json::new().id_from(|request: &Value| {
//!     request["user"].as_str().map(|user| ConversationId::new(["acme", user]))
//! });
//! let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), adapter)).service(llm);
//!
//! let request = json!({"user": "42", "messages": [{"role": "user", "content": "Hi"}]});
//! chat.ready().await?.call(request.clone()).await?;
//! let second = chat.ready().await?.call(request).await?;
//! assert_eq!(second["choices"][0]["message"]["content"], 3);
//! # Ok(())
//! # }
//! ```
//!
//! A call through an async-openai client cannot have extensions, because the client itself builds the
//! `reqwest::Request`. Use a header or the [running task](in_conversation) for the conversation id: `OpenAiHistory`
//! in `tower-chat-history-openai` reads both.

#[cfg(feature = "http")]
mod http;
mod into_scope;
mod task;

use std::fmt;

#[cfg(feature = "http")]
pub use self::http::{FromExtensions, FromHeader};
pub use self::{
    into_scope::IntoCallScope,
    task::{FromTask, in_conversation, stateless},
};
pub use crate::call::CallScope;
use crate::{call::InConversation, error::BoxError};

/// An extractor: it finds the conversation that a request of type `R` belongs to.
pub trait ExtractScope<R> {
    /// The call: the request itself, or a type that contains it.
    type Call;

    /// Splits a call into its scope and its request.
    ///
    /// # Errors
    ///
    /// Returns [`MissingConversation`](crate::MissingConversation) if the call names no conversation and is not
    /// marked as stateless, or the extractor's own error. The caller gets the error, and neither the store nor the
    /// model is called.
    fn extract(&self, call: Self::Call) -> Result<(CallScope, R), BoxError>;
}

/// Extracts the conversation from the [`InConversation`] that contains the request.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Envelope;

impl Envelope {
    /// Creates the extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<R> ExtractScope<R> for Envelope {
    type Call = InConversation<R>;

    fn extract(&self, call: InConversation<R>) -> Result<(CallScope, R), BoxError> {
        Ok(call.into_parts())
    }
}

/// Extracts the conversation from the request with a closure.
///
/// The closure returns a value of a type that implements [`IntoCallScope`]: an id, an id with
/// [`CallOptions`](crate::CallOptions), a [`CallScope`], or an `Option` or `Result` of these. If the closure returns
/// `None`, the call is not stateless: it fails with [`MissingConversation`](crate::MissingConversation).
#[derive(Clone, Copy)]
pub struct IdFrom<F>(F);

impl<F> IdFrom<F> {
    /// Creates the extractor with this closure.
    pub const fn new(find: F) -> Self {
        Self(find)
    }
}

impl<R, F, T> ExtractScope<R> for IdFrom<F>
where
    F: Fn(&R) -> T,
    T: IntoCallScope,
{
    type Call = R;

    fn extract(&self, call: R) -> Result<(CallScope, R), BoxError> {
        Ok(((self.0)(&call).into_call_scope()?, call))
    }
}

impl<F> fmt::Debug for IdFrom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdFrom").finish_non_exhaustive()
    }
}

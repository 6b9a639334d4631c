//! Extractors: values that find the conversation of a call.
//!
//! There is no default conversation. A call names its conversation or is marked as stateless; otherwise it fails with
//! [`MissingConversation`] before the store and the model are called. Every adapter has an
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

use std::fmt;

use tower_chat_history_core::ConversationId;

#[cfg(feature = "http")]
pub use self::http::{FromExtensions, FromHeader};
pub use crate::call::CallScope;
use crate::{
    call::{CallOptions, InConversation},
    error::{BoxError, MissingConversation},
};

/// An extractor: it finds the conversation that a request of type `R` belongs to.
pub trait ExtractScope<R> {
    /// The call: the request itself, or a type that contains it.
    type Call;

    /// Splits a call into its scope and its request.
    ///
    /// # Errors
    ///
    /// Returns [`MissingConversation`] if the call names no conversation and is not
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
/// [`CallOptions`], a [`CallScope`], or an `Option` or `Result` of these. If the closure returns
/// `None`, the call is not stateless: it fails with [`MissingConversation`].
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

/// A value that names the conversation of a call, or marks the call as stateless. Closures of
/// [`IdFrom`] return such a value.
///
/// It is a [`ConversationId`], alone or with [`CallOptions`], a [`CallScope`], or an `Option` or `Result` of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which conversation a call belongs to",
    note = "return a `ConversationId` (alone or with `CallOptions`), a `CallScope`, or an `Option` or a `Result` of one of them"
)]
pub trait IntoCallScope {
    /// Converts the value into a scope.
    ///
    /// # Errors
    ///
    /// Returns [`MissingConversation`] for `None`, and for an `Err` its error.
    fn into_call_scope(self) -> Result<CallScope, BoxError>;
}

impl IntoCallScope for CallScope {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(self)
    }
}

impl IntoCallScope for (ConversationId, CallOptions) {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(CallScope::Conversation(self.0, self.1))
    }
}

impl IntoCallScope for ConversationId {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(self.into())
    }
}

impl<T: IntoCallScope> IntoCallScope for Option<T> {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        self.ok_or(MissingConversation)?.into_call_scope()
    }
}

impl<T: IntoCallScope, E: Into<BoxError>> IntoCallScope for Result<T, E> {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        self.map_err(Into::into)?.into_call_scope()
    }
}

tokio::task_local! {
    /// `None` is the value within [`stateless`]. The scope has no exchange id, because an exchange id belongs to a
    /// single call and a scope may contain several.
    static CONVERSATION: Option<ConversationId>;
}

/// Runs a future in a conversation: calls within it belong to the conversation, if their adapter
/// [reads the id from the task](FromTask).
///
/// Functions that a request handler calls then need no parameter for the conversation id. If scopes are nested, the
/// innermost one applies. A scope ends with its future. It does not extend to tasks that are spawned within it, as
/// for every tokio task-local.
///
/// ```
/// use serde_json::json;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_chat_history::{
///     BoxError, ChatHistoryLayer, ConversationId, HistoryStoreExt, MemoryStore, adapt::Json, in_conversation,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|_: serde_json::Value| async {
/// #     Ok::<_, std::io::Error>(json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}))
/// # });
/// let store = MemoryStore::new();
/// let layer = ChatHistoryLayer::new(store.clone(), Json::new().id_from_task());
/// let chat = ServiceBuilder::new().layer(layer).service(llm);
///
/// let id = ConversationId::new(["acme", "user-42"])?;
/// in_conversation(id.clone(), async {
///     chat.oneshot(json!({"messages": [{"role": "user", "content": "Hi"}]})).await
/// })
/// .await?;
/// assert_eq!(store.conversation(&id).messages().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub fn in_conversation<F: Future>(id: ConversationId, future: F) -> impl Future<Output = F::Output> {
    CONVERSATION.scope(Some(id), future)
}

/// Runs a future outside of every conversation: calls within it pass through unchanged, and nothing is stored, if their
/// adapter [reads the id from the task](FromTask).
pub fn stateless<F: Future>(future: F) -> impl Future<Output = F::Output> {
    CONVERSATION.scope(None, future)
}

/// Extracts the conversation of the [scope](in_conversation) in which the call is made. The call is the request itself.
///
/// The id is read when the call's future is first polled, so await the future within the scope.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FromTask;

impl FromTask {
    /// Creates the extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<R> ExtractScope<R> for FromTask {
    type Call = R;

    fn extract(&self, call: R) -> Result<(CallScope, R), BoxError> {
        let id = CONVERSATION.try_with(Clone::clone).map_err(|_| MissingConversation)?;
        Ok((id.map_or(CallScope::Stateless, CallScope::from), call))
    }
}

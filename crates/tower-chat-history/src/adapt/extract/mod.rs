//! Where a call belongs: extractors that find its conversation.
//!
//! There is no default conversation. A call names one, or says that it is stateless, or fails with
//! [`MissingConversation`] before store and model are asked. How it says so is an [extractor](ExtractScope), which is a part
//! of the adapter:
//!
//! | extractor | the call is | made by |
//! |---|---|---|
//! | [`Envelope`] | [`InConversation<R>`], or [`InConversation::stateless`] | default |
//! | [`IdFrom`] | `R`; a closure finds the id in it | `id_from(closure)` |
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
//! Choosing another extractor makes another adapter type, which takes another call type. So each adapter takes exactly one,
//! and what `chat.ready()` is for is never ambiguous.
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
//! A call through an async-openai client has no extensions to read: the client builds the request itself, as a
//! `reqwest::Request`, and reqwest keeps the extensions of that private. There headers and the [task's scope](in_conversation)
//! say where a call belongs; `OpenAiHistory` in `tower-chat-history-openai` reads both.

#[cfg(feature = "http")]
mod http;
mod into_scope;
mod task;

use std::fmt;

#[cfg(feature = "http")]
pub use self::http::{ConversationHeaderError, FromExtensions, FromHeader};
pub use self::{
    into_scope::{IntoCallScope, MissingConversation},
    task::{FromTask, in_conversation, stateless},
};
pub use crate::call::CallScope;
use crate::{call::InConversation, discard::discard, error::BoxError};

/// Finds where a request of type `R` belongs.
pub trait ExtractScope<R> {
    /// What the caller sends: the request itself, or something around it.
    type Call;

    /// Takes a call apart.
    ///
    /// # Errors
    ///
    /// [`MissingConversation`] when the call names no conversation and does not say that it is stateless, or what the
    /// extractor itself fails with. The caller gets it; neither store nor model have been called.
    fn extract(&self, call: Self::Call) -> Result<(CallScope, R), BoxError>;
}

/// The call is an [`InConversation`] around the request.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Envelope;

impl Envelope {
    /// The extractor.
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

/// A closure finds the conversation in the request.
///
/// It returns whatever [says where a call belongs](IntoCallScope): an id, an id with
/// [`CallOptions`](crate::CallOptions), a [`CallScope`], an `Option` (`None` is [missing](MissingConversation), not stateless) or a `Result` of these.
#[derive(Clone, Copy)]
pub struct IdFrom<F>(F);

impl<F> IdFrom<F> {
    /// The extractor that asks this closure.
    pub const fn new(find: F) -> Self {
        Self(find)
    }
}

impl<R, F, T> ExtractScope<R> for IdFrom<F>
where
    R: 'static,
    F: Fn(&R) -> T,
    T: IntoCallScope,
{
    type Call = R;

    fn extract(&self, call: R) -> Result<(CallScope, R), BoxError> {
        match (self.0)(&call).into_call_scope() {
            Ok(scope) => Ok((scope, call)),
            Err(error) => {
                discard(call);
                Err(error)
            }
        }
    }
}

impl<F> fmt::Debug for IdFrom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdFrom").finish_non_exhaustive()
    }
}

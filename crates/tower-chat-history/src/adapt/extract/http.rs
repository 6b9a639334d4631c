//! Extractors for `http` requests: from extensions, or from a header.

use http::{HeaderMap, HeaderName, Request};
use tower_chat_history_core::ConversationId;

use super::{CallScope, ExtractScope, IntoCallScope as _};
use crate::{
    call::CallOptions,
    error::{BoxError, HeaderError, MissingConversation},
};

/// Extracts the conversation from the extensions of an [`http::Request`] (feature `http`).
///
/// If the extensions contain a [`CallScope`], it applies. Only a `CallScope` can mark the call as stateless. If there
/// is no `CallScope`, their [`ConversationId`] names the conversation, and their [`CallOptions`], if any, are the
/// options. A handler's `CallScope` for one call therefore overrides the id that an outer middleware has inserted.
///
/// The extensions stay in the request, so inner services can read them. They are not sent to the provider.
///
/// Insert `CallOptions` for a single call only. A clone of the request has the same exchange id and the same report
/// handle: only one of the two exchanges is stored, and the handle receives the report of the first call that does
/// not fail. This is useful for a retry of the same call. For another call, insert new options.
///
/// ```
/// use http::Request;
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use tower_chat_history::{
///     BoxError, ChatHistoryLayer, ConversationId, MemoryStore, Message,
///     adapt::{Custom, extract::FromExtensions},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|request: Request<Vec<Message>>| async move {
/// #     Ok::<_, std::io::Error>(Message::assistant(request.body().len().to_string()))
/// # });
/// let adapter = Custom::messages(|request: &mut Request<Vec<Message>>| request.body_mut())
///     .reply(|answer: &Message| answer.clone())
///     .extract_by(FromExtensions::new());
/// let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), adapter)).service(llm);
///
/// let id = ConversationId::new(["acme", "user-42"])?;
/// for answer in ["1", "3"] {
///     let request = Request::builder().extension(id.clone()).body(vec![Message::user("Hi")])?;
///     assert_eq!(chat.ready().await?.call(request).await?.text(), answer);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FromExtensions;

impl FromExtensions {
    /// Creates the extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<B> ExtractScope<Request<B>> for FromExtensions {
    type Call = Request<B>;

    fn extract(&self, call: Request<B>) -> Result<(CallScope, Request<B>), BoxError> {
        let extensions = call.extensions();
        let scope = if let Some(scope) = extensions.get::<CallScope>() {
            scope.clone()
        } else {
            let id = extensions.get::<ConversationId>().cloned();
            let options = extensions.get::<CallOptions>().cloned().unwrap_or_default();
            id.map(|id| (id, options)).into_call_scope()?
        };
        Ok((scope, call))
    }
}

/// Extracts the conversation from a header of an [`http::Request`] (feature `http`). Its value is the text form of a
/// [`ConversationId`].
///
/// The header is removed before the inner service gets the request, because ids may name users, and the provider does
/// not need them. A header cannot mark a call as stateless. To read other parts of a request, use a
/// [closure](super::IdFrom).
///
/// The sender of a request chooses the value of a header. If requests come from outside, first check that their
/// sender may use the conversation.
///
/// # Errors
///
/// Without the header, a call fails with [`MissingConversation`]. If the header is set more than once, or its value
/// is not a conversation id, the call fails with [`HeaderError`].
///
/// ```
/// use http::{HeaderName, Request};
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use tower_chat_history::{
///     BoxError, ChatHistoryLayer, ConversationId, MemoryStore, Message,
///     adapt::{Custom, extract::FromHeader},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|request: Request<Vec<Message>>| async move {
/// #     assert!(request.headers().is_empty());
/// #     Ok::<_, std::io::Error>(Message::assistant(request.body().len().to_string()))
/// # });
/// let adapter = Custom::messages(|request: &mut Request<Vec<Message>>| request.body_mut())
///     .reply(|answer: &Message| answer.clone())
///     .extract_by(FromHeader::new(HeaderName::from_static("x-conversation")));
/// let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), adapter)).service(llm);
///
/// let id = ConversationId::new(["acme", "user-42"])?;
/// for answer in ["1", "3"] {
///     let request = Request::builder().header("x-conversation", id.as_str()).body(vec![Message::user("Hi")])?;
///     assert_eq!(chat.ready().await?.call(request).await?.text(), answer);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FromHeader {
    name: HeaderName,
}

impl FromHeader {
    /// Creates the extractor for the header with this name.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self { name }
    }

    fn id(&self, headers: &HeaderMap) -> Result<ConversationId, BoxError> {
        let mut values = headers.get_all(&self.name).iter();
        let value = values.next().ok_or(MissingConversation)?;
        let name = self.name.clone();
        if values.next().is_some() {
            return Err(HeaderError::Repeated { name }.into());
        }
        let Ok(text) = value.to_str() else { return Err(HeaderError::NotAscii { name }.into()) };
        Ok(text.parse().map_err(|source| HeaderError::ConversationId { name, source })?)
    }
}

impl<B> ExtractScope<Request<B>> for FromHeader {
    type Call = Request<B>;

    fn extract(&self, mut call: Request<B>) -> Result<(CallScope, Request<B>), BoxError> {
        let id = self.id(call.headers())?;
        call.headers_mut().remove(&self.name);
        Ok((id.into(), call))
    }
}

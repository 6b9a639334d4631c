//! Extractors for `http` requests: from extensions, or from a header.

use http::{HeaderMap, HeaderName, Request};
use tower_chat_history_core::ConversationId;

use super::{CallScope, ExtractScope, IntoCallScope as _};
use crate::{
    call::CallOptions,
    discard::discard,
    error::{BoxError, HeaderError, MissingConversation},
};

/// Extracts the conversation from the extensions of an [`http::Request`] (feature `http`).
///
/// If the extensions have a [`CallScope`], it counts. Only a `CallScope` can mark the call as stateless. Otherwise,
/// the call belongs to the [`ConversationId`] and has the [`CallOptions`], if there are any. A handler's `CallScope`
/// for one call therefore overrides the id that an outer middleware has inserted.
///
/// The extensions stay in the request. They do not leave the process, and inner services may use them.
///
/// `CallOptions` apply to a single call. A clone of the request shares its exchange id, so only one of the two is
/// stored, and its report, which is about the one that ends first. This is right for a retry, and wrong for two
/// calls.
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

impl<B: 'static> ExtractScope<Request<B>> for FromExtensions {
    type Call = Request<B>;

    fn extract(&self, call: Request<B>) -> Result<(CallScope, Request<B>), BoxError> {
        let extensions = call.extensions();
        let scope = if let Some(scope) = extensions.get::<CallScope>() {
            Ok(scope.clone())
        } else {
            let id = extensions.get::<ConversationId>().cloned();
            let options = extensions.get::<CallOptions>().cloned().unwrap_or_default();
            id.map(|id| (id, options)).into_call_scope()
        };
        located(scope, call)
    }
}

/// Returns the request with its scope. Without a scope, the request is discarded.
fn located<B: 'static>(
    scope: Result<CallScope, BoxError>,
    call: Request<B>,
) -> Result<(CallScope, Request<B>), BoxError> {
    match scope {
        Ok(scope) => Ok((scope, call)),
        Err(error) => {
            discard(call.into_body());
            Err(error)
        }
    }
}

/// Extracts the conversation from a header of an [`http::Request`] (feature `http`). Its value is the text form of a
/// [`ConversationId`].
///
/// The header is removed before the inner service gets the request, because ids may name users, and the provider does
/// not need them. A header cannot mark a call as stateless; a [closure](super::IdFrom) can read more.
///
/// A header contains whatever its sender chose. Before you trust one from outside, check that the sender may use the
/// conversation.
///
/// # Errors
///
/// Without the header, a call fails with [`MissingConversation`]. A header that is repeated or has no id fails with
/// [`HeaderError`].
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
        let name = || self.name.clone();
        if values.next().is_some() {
            return Err(HeaderError::Repeated { name: name() }.into());
        }
        let text = value.to_str().map_err(|_| HeaderError::NotAscii { name: name() })?;
        Ok(text.parse().map_err(|source| HeaderError::ConversationId { name: name(), source })?)
    }
}

impl<B: 'static> ExtractScope<Request<B>> for FromHeader {
    type Call = Request<B>;

    fn extract(&self, mut call: Request<B>) -> Result<(CallScope, Request<B>), BoxError> {
        let scope = self.id(call.headers()).map(CallScope::from);
        call.headers_mut().remove(&self.name);
        located(scope, call)
    }
}

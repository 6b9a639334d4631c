//! Conversations of `http` requests: in their extensions, or in a header.

use http::{HeaderMap, HeaderName, Request};
use tower_chat_history_core::{ConversationId, ConversationIdError};

use super::{CallScope, ExtractScope, IntoCallScope as _, MissingConversation};
use crate::{call::CallOptions, discard::discard, error::BoxError};

/// The call is an [`http::Request`] whose extensions say where it belongs (feature `http`).
///
/// A [`CallScope`] comes first, and alone can say that the call is stateless. Without one, the call belongs to the
/// [`ConversationId`] and has the [`CallOptions`], if there are some. So the scope that a handler gives one call counts
/// before the id that a middleware around it has put there.
///
/// What is found stays in the extensions: they do not leave the process, and the services within may want to know it.
///
/// `CallOptions` are those of one call. Requests that are cloned from one share its exchange id, so that one of them is stored, and
/// its report, which tells of the one that ended first. That is right for a call that is tried again, and wrong for two calls.
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
    /// The extractor.
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

/// The call is an [`http::Request`] that names its conversation in a header (feature `http`), in the text form of
/// [`ConversationId`].
///
/// The header is removed: the inner service gets the request without it, since ids name users and are no provider's
/// business. Without the header, the call fails with [`MissingConversation`], so no call is stateless by header; a
/// [closure](super::IdFrom) can read more.
///
/// A header is what its sender claims. Before one from outside is read here, check that the sender may have the
/// conversation.
///
/// # Errors
///
/// A header that is repeated or has no id fails with [`ConversationHeaderError`].
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
    /// The extractor that reads the header of this name.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self { name }
    }

    fn id(&self, headers: &HeaderMap) -> Result<ConversationId, BoxError> {
        let mut values = headers.get_all(&self.name).iter();
        let value = values.next().ok_or(MissingConversation)?;
        let name = || self.name.clone();
        if values.next().is_some() {
            return Err(ConversationHeaderError::Repeated { name: name() }.into());
        }
        let text = value.to_str().map_err(|_| ConversationHeaderError::NotAscii { name: name() })?;
        Ok(text.parse().map_err(|source| ConversationHeaderError::NoId { name: name(), source })?)
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

/// A header that does not name one conversation (feature `http`). It says which header, not its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationHeaderError {
    /// It is set more than once: which value counts would be a guess.
    #[error("the header {name} is set more than once")]
    Repeated {
        /// Which header.
        name: HeaderName,
    },
    /// Its value has characters that are not visible ASCII.
    #[error("the header {name} has characters that are not visible ASCII")]
    NotAscii {
        /// Which header.
        name: HeaderName,
    },
    /// Its value is no conversation id's text form.
    #[error("the header {name} has no conversation id")]
    NoId {
        /// Which header.
        name: HeaderName,
        /// Why.
        #[source]
        source: ConversationIdError,
    },
}

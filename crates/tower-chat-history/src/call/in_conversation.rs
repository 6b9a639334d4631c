//! A request and its conversation.

use std::fmt;

use tower_chat_history_core::{ConversationId, ExchangeId, Message, Metadata};

use super::{CallOptions, CallScope};
use crate::report::ReportHandle;

/// A request with the conversation that it belongs to.
///
/// ```
/// use tower_chat_history::{ConversationId, InConversation};
///
/// let request = "any request type that an adapter knows";
/// let id = ConversationId::new(["acme", "user-42"])?;
/// let (call, report) = InConversation::new(id, request).with_report();
/// # Ok::<(), tower_chat_history::store::ConversationIdError>(())
/// ```
///
/// The setters are those of [`CallOptions`]. A stateless call has no options, so they have no effect on it.
///
/// `Debug` shows the scope, but not the request, because most request types show their text.
#[derive(Clone)]
pub struct InConversation<R> {
    scope: CallScope,
    pub(crate) request: R,
}

impl<R> InConversation<R> {
    /// Creates a request in this conversation.
    pub fn new(id: ConversationId, request: R) -> Self {
        Self { scope: id.into(), request }
    }

    /// Creates a request without a conversation: it is passed on unchanged, and nothing is stored.
    ///
    /// A call without an id is never stateless by default: it fails with
    /// [`MissingConversation`](crate::MissingConversation).
    pub const fn stateless(request: R) -> Self {
        Self { scope: CallScope::Stateless, request }
    }

    /// Changes the options of the call with a closure.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        if let CallScope::Conversation(_, options) = &mut self.scope {
            *options = change(std::mem::take(options));
        }
        self
    }

    /// Sets the id of the exchange. See [`CallOptions::exchange`].
    #[must_use]
    pub fn exchange(self, id: ExchangeId) -> Self {
        self.options(|options| options.exchange(id))
    }

    /// Sets the number of few-shot messages that are part of the head. See [`CallOptions::few_shot_messages`].
    #[must_use]
    pub fn few_shot_messages(self, messages: usize) -> Self {
        self.options(|options| options.few_shot_messages(messages))
    }

    /// Sets your own data about the exchange. See [`CallOptions::metadata`].
    #[must_use]
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.options(|options| options.metadata(metadata))
    }

    /// Disables storing for this call. See [`CallOptions::dont_store`].
    #[must_use]
    pub fn dont_store(self) -> Self {
        self.options(CallOptions::dont_store)
    }

    /// Sets the messages to store in place of the input. See [`CallOptions::store_instead`].
    #[must_use]
    pub fn store_instead(self, input: impl IntoIterator<Item = Message>) -> Self {
        self.options(|options| options.store_instead(input))
    }

    /// Returns the call, and a handle that receives the report of its turn. For a stateless call, the handle resolves
    /// to `None`.
    #[must_use]
    pub fn with_report(self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        let call = self.options(|mut options| {
            options.report = Some(sender);
            options
        });
        (call, handle)
    }

    /// Returns the scope and the request. Adapters use this.
    pub fn into_parts(self) -> (CallScope, R) {
        (self.scope, self.request)
    }
}

impl<R> fmt::Debug for InConversation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InConversation").field("scope", &self.scope).finish_non_exhaustive()
    }
}

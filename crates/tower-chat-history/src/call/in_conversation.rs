//! A request in its conversation.

use std::fmt;

use tower_chat_history_core::{ConversationId, ExchangeId, Message};

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
/// Its setters are those of [`CallOptions`]; a stateless call has no options, and they change nothing.
///
/// `Debug` shows the scope, not the request: most request types show their text.
#[derive(Clone)]
pub struct InConversation<R> {
    scope: CallScope,
    pub(crate) request: R,
}

impl<R> InConversation<R> {
    /// A request in that conversation.
    pub fn new(id: ConversationId, request: R) -> Self {
        Self { scope: id.into(), request }
    }

    /// A request that belongs to no conversation: it is passed on as it is, and nothing is stored.
    ///
    /// This has to be said: there is no default conversation, and no call without an id.
    pub const fn stateless(request: R) -> Self {
        Self { scope: CallScope::Stateless, request }
    }

    /// Changes the options of the call.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        if let CallScope::Conversation(_, options) = &mut self.scope {
            *options = change(std::mem::take(options));
        }
        self
    }

    /// Names the exchange. See [`CallOptions::exchange`].
    #[must_use]
    pub fn exchange(self, id: ExchangeId) -> Self {
        self.options(|options| options.exchange(id))
    }

    /// Counts that many messages after the instructions as head. See [`CallOptions::few_shot_messages`].
    #[must_use]
    pub fn few_shot_messages(self, messages: usize) -> Self {
        self.options(|options| options.few_shot_messages(messages))
    }

    /// Stores nothing of this call. See [`CallOptions::dont_store`].
    #[must_use]
    pub fn dont_store(self) -> Self {
        self.options(CallOptions::dont_store)
    }

    /// Stores these messages in place of the input. See [`CallOptions::store_instead`].
    #[must_use]
    pub fn store_instead(self, input: impl IntoIterator<Item = Message>) -> Self {
        self.options(|options| options.store_instead(input))
    }

    /// Sends the turn's report to the returned handle. A stateless call has none.
    #[must_use]
    pub fn with_report(self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        let call = self.options(|mut options| {
            options.report = Some(sender);
            options
        });
        (call, handle)
    }

    /// Returns where the request belongs, and the request, for adapters.
    pub fn into_parts(self) -> (CallScope, R) {
        (self.scope, self.request)
    }
}

impl<R> fmt::Debug for InConversation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InConversation").field("scope", &self.scope).finish_non_exhaustive()
    }
}

//! A request in its conversation.

use std::fmt;

use tower_chat_history_core::{ConversationId, ExchangeId, Message};

use crate::{CallOptions, ReportHandle};

/// A request with the conversation it belongs to: what the typed door takes.
///
/// ```
/// use tower_chat_history::{ConversationId, InConversation};
///
/// let request = "any request type that an adapter knows";
/// let id = ConversationId::new(["acme", "user-42"])?;
/// let (call, report) = InConversation::new(id, request).with_report();
/// # Ok::<(), tower_chat_history::ConversationIdError>(())
/// ```
///
/// `Debug` shows the place, not the request: most request types show their text.
#[derive(Clone)]
pub struct InConversation<R> {
    pub(crate) scope: Scope,
    pub(crate) request: R,
}

/// Where a request belongs.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    Conversation(Place),
    Stateless,
}

/// A request's place, taken apart for adapters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The conversation.
    pub conversation: ConversationId,
    /// The caller's name for the exchange.
    pub exchange: Option<ExchangeId>,
    /// How many messages behind the leading system and developer messages are head as well.
    pub few_shot_messages: usize,
    /// What this call wants otherwise.
    pub options: CallOptions,
}

impl<R> InConversation<R> {
    /// A request in that conversation.
    pub fn new(id: ConversationId, request: R) -> Self {
        let options = CallOptions::default();
        let place = Place { conversation: id, exchange: None, few_shot_messages: 0, options };
        Self { scope: Scope::Conversation(place), request }
    }

    /// A request that belongs to no conversation: it is passed on as it is, and nothing is stored.
    ///
    /// This has to be said: there is no default conversation, and no call without an id.
    pub const fn stateless(request: R) -> Self {
        Self { scope: Scope::Stateless, request }
    }

    /// Names the exchange, which makes the call repeatable: it is stored once under this id, and a repeated call is told
    /// so before the model is called ([`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded)). The default is a
    /// generated id.
    #[must_use]
    pub fn exchange(self, id: ExchangeId) -> Self {
        self.map_place(|place| place.exchange = Some(id))
    }

    /// Counts that many messages behind the leading system and developer messages as head too: few-shot examples are sent
    /// first and never stored. The default is 0.
    #[must_use]
    pub fn few_shot_messages(self, messages: usize) -> Self {
        self.map_place(|place| place.few_shot_messages = messages)
    }

    /// Stores nothing of this call: it sees the history and leaves no trace in it.
    #[must_use]
    pub fn dont_store(self) -> Self {
        self.map_place(|place| place.options = std::mem::take(&mut place.options).dont_store())
    }

    /// Stores these messages in place of the input. See [`CallOptions::store_instead`].
    #[must_use]
    pub fn store_instead(self, input: impl IntoIterator<Item = Message>) -> Self {
        self.map_place(|place| place.options = std::mem::take(&mut place.options).store_instead(input))
    }

    /// Brings the turn's report to the returned handle. A stateless call has none.
    #[must_use]
    pub fn with_report(self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        (self.map_place(|place| place.options.report = Some(sender)), handle)
    }

    /// The request, and where it belongs (`None`: explicitly nowhere), for adapters.
    pub fn into_parts(self) -> (Option<Place>, R) {
        let place = match self.scope {
            Scope::Conversation(place) => Some(place),
            Scope::Stateless => None,
        };
        (place, self.request)
    }

    fn map_place(mut self, change: impl FnOnce(&mut Place)) -> Self {
        if let Scope::Conversation(place) = &mut self.scope {
            change(place);
        }
        self
    }
}

impl<R> fmt::Debug for InConversation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InConversation").field("scope", &self.scope).finish_non_exhaustive()
    }
}

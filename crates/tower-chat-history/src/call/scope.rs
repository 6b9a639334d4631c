//! Where a call belongs.

use tower_chat_history_core::ConversationId;

use super::CallOptions;

/// Where a call belongs: to a conversation, or explicitly to none.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // It is taken apart where it is returned.
pub enum CallScope {
    /// The call sees that conversation's history and is stored in it, as its options say.
    Conversation(ConversationId, CallOptions),
    /// The call is passed on as it is, and nothing is stored.
    Stateless,
}

/// A call in that conversation, with the default options.
impl From<ConversationId> for CallScope {
    fn from(conversation: ConversationId) -> Self {
        Self::Conversation(conversation, CallOptions::new())
    }
}

//! The scope of a call.

use tower_chat_history_core::ConversationId;

use super::CallOptions;

/// The scope of a call: a conversation, or explicitly none.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // Values are short-lived: callers destructure them immediately.
pub enum CallScope {
    /// The prompt contains this conversation's history, and the exchange is stored in it according to the options.
    Conversation(ConversationId, CallOptions),
    /// The call is passed on unchanged, and nothing is stored.
    Stateless,
}

/// Creates the scope of a call in this conversation, with the default options.
impl From<ConversationId> for CallScope {
    fn from(conversation: ConversationId) -> Self {
        Self::Conversation(conversation, CallOptions::new())
    }
}

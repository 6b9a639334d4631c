//! What the model answered.

use tower_chat_history_core::{Message, Usage};

/// What the model answered, as history keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The reply: the first choice's message. Without one, nothing is stored.
    pub message: Option<Message>,
    /// The model, as it named itself.
    pub model: Option<String>,
    /// Why it stopped, as the provider said it.
    pub finish_reason: Option<String>,
    /// What the provider reported.
    pub usage: Option<Usage>,
    /// Whether the reply broke off and only its text is here.
    pub incomplete: bool,
}

impl Reply {
    /// A complete reply.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self { message: Some(message), ..Self::default() }
    }
}

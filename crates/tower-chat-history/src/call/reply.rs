//! What the model answered.

use tower_chat_history_core::{Message, Usage};

use crate::report::ResponseShape;

/// What the model answered, as history keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The reply: of several choices, the message of the one with the least index. Without a message nothing is stored.
    pub message: Option<Message>,
    /// The model, as it named itself.
    pub model: Option<String>,
    /// Why it stopped, as the provider said it.
    pub finish_reason: Option<String>,
    /// What the provider reported.
    pub usage: Option<Usage>,
    /// True if the reply broke off and only its text is here.
    pub incomplete: bool,
    /// What the response looks like, if there is no message because it could not be read.
    pub unreadable: Option<ResponseShape>,
}

impl Reply {
    /// A complete reply.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self { message: Some(message), ..Self::default() }
    }

    /// No reply: the response could not be read, and looks like this.
    #[must_use]
    pub fn unreadable(shape: ResponseShape) -> Self {
        Self { unreadable: Some(shape), ..Self::default() }
    }
}

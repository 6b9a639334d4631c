//! The model's reply.

use tower_chat_history_core::{Message, Usage};

use crate::report::ResponseShape;

/// The model's reply, with the facts about it that are stored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The reply's message. If there are several choices, it is the message of the choice with the least index.
    /// Without a message, nothing is stored.
    pub message: Option<Message>,
    /// The name of the model, as stated in the response.
    pub model: Option<String>,
    /// The finish reason, as stated by the provider.
    pub finish_reason: Option<String>,
    /// The token usage that the provider reported.
    pub usage: Option<Usage>,
    /// True if the reply broke off, so that the message has only its text.
    pub incomplete: bool,
    /// The shape of the response, if there is no message because the response could not be read.
    pub unreadable: Option<ResponseShape>,
}

impl Reply {
    /// Creates a complete reply.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self { message: Some(message), ..Self::default() }
    }

    /// Creates a reply without a message, for a response of this shape that could not be read.
    #[must_use]
    pub fn unreadable(shape: ResponseShape) -> Self {
        Self { unreadable: Some(shape), ..Self::default() }
    }
}

//! The model's reply.

use tower_chat_history_core::{Message, Usage};

use crate::report::ResponseShape;

/// The model's reply, with the facts about it that are stored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The messages of the reply. In chat completions, a reply is one message. If there are several choices, it is the
    /// message of the choice with the lowest index. If the list is empty, nothing is stored.
    pub messages: Vec<Message>,
    /// The name of the model, as stated in the response.
    pub model: Option<String>,
    /// The finish reason, as stated by the provider.
    pub finish_reason: Option<String>,
    /// The token usage that the provider reported.
    pub usage: Option<Usage>,
    /// True if the reply broke off. The message then has only the text that arrived.
    pub incomplete: bool,
    /// The shape of the response, if the response could not be read. There is then no message.
    pub unreadable: Option<ResponseShape>,
}

impl Reply {
    /// Creates a complete reply.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self::of([message])
    }

    /// Creates a complete reply of several messages, for a dialect whose replies have more than one.
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Returns the first message.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        self.messages.first()
    }

    /// Creates a reply without a message, for a response of this shape that could not be read.
    #[must_use]
    pub fn unreadable(shape: ResponseShape) -> Self {
        Self { unreadable: Some(shape), ..Self::default() }
    }
}

//! The model's reply, and assembling it from a stream.

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

/// Assembles the reply from a stream's items.
///
/// After a panic, the fold is not called again. Nothing is stored then, unless the reply was complete.
pub trait FoldReply<T>: Send + 'static {
    /// Adds the next item to the reply. The result determines the time at which the item is passed on to the caller.
    /// The item itself is never changed.
    fn push(&mut self, item: &T) -> Flow;

    /// Returns `true` if every requested choice has a finish reason. As soon as this is true, the exchange will be
    /// stored, even if the caller stops reading.
    fn is_complete(&self) -> bool;

    /// Returns `true` if the choice to be stored (the one with the lowest index) has a finish reason. If the stream
    /// ends in this state, the exchange is stored, although other choices are incomplete or missing: some providers
    /// return fewer choices than requested.
    fn is_whole(&self) -> bool;

    /// Returns the reply so far. It includes the usage, which may arrive after the last choice.
    fn reply(&self) -> Reply;

    /// Returns the text so far as a partial reply, without tool calls, for a stream that broke off. Returns `None` if
    /// there is no text.
    fn partial(&self) -> Option<Reply>;
}

/// The time at which an item is passed on to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The item is passed on immediately.
    Pass,
    /// The item is the stream's last one (`[DONE]`), after which callers stop reading. It is passed on only after the
    /// save of the exchange has ended.
    Hold,
}

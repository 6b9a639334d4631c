//! The messages of a request: head, transcript and input.

use std::ops::Range;

use tower_chat_history_core::Message;

use super::InputMode;

/// The messages of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RequestMessages {
    /// The leading system and developer messages, and the few-shot messages after them. They are sent first and never
    /// stored.
    pub head: Vec<Message>,
    /// The part of the conversation that the caller resends. The window is sent in its place.
    pub transcript: Vec<Message>,
    /// The new messages.
    pub input: Vec<Message>,
}

impl RequestMessages {
    /// Splits a request's list of messages. The head is the leading system and developer messages, and
    /// `few_shot_messages` messages after them. `mode` decides where the input starts.
    ///
    /// ```
    /// use tower_chat_history::{InputMode, Message, RequestMessages};
    ///
    /// let messages = vec![
    ///     Message::system("S"),
    ///     Message::user("Hi"),
    ///     Message::assistant("Hello!"),
    ///     Message::user("And?"),
    /// ];
    /// let split = RequestMessages::split(messages, 0, InputMode::Transcript);
    /// assert_eq!((split.head.len(), split.transcript.len(), split.input.len()), (1, 2, 1));
    /// assert_eq!(split.transcript_range(), 1..3);
    /// ```
    #[must_use]
    pub fn split(messages: Vec<Message>, few_shot_messages: usize, mode: InputMode) -> Self {
        let mut head = messages;
        let instructions = head.iter().take_while(|message| message.is_instruction()).count();
        let mut transcript = head.split_off(instructions.saturating_add(few_shot_messages).min(head.len()));
        let input = transcript.split_off(mode.input_start(&transcript));
        Self { head, transcript, input }
    }

    /// Creates messages that are all input.
    #[must_use]
    pub const fn new_input(input: Vec<Message>) -> Self {
        Self { head: Vec::new(), transcript: Vec::new(), input }
    }

    /// Returns the range of the transcript in the request's list. The window replaces it.
    #[must_use]
    pub fn transcript_range(&self) -> Range<usize> {
        self.head.len()..self.head.len() + self.transcript.len()
    }
}

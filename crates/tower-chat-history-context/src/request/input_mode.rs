//! The mode that decides which messages of a request are new.

use tower_chat_history_core::{Message, Role};

/// Decides which messages of a request are its input, that is, new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputMode {
    /// All messages after the head are input. If they contain a reply (an assistant message without tool calls), the
    /// call is refused with [`InputError::Resent`](crate::InputError::Resent), because the caller resends messages of
    /// the log.
    #[default]
    New,
    /// All messages after the last assistant message are input. This mode is for callers that keep their own list of
    /// messages and send all of it, such as code that was written without history. The messages between head and input
    /// (the transcript) are compared with the end of the log, and the window is sent in their place.
    ///
    /// The caller's list must therefore equal the stored messages, apart from white space around texts. It may lack a
    /// partial reply. Remove replies from the list that were not saved, and do not store messages other than those that
    /// were sent. `OnTranscriptMismatch` decides what happens if the list differs.
    Transcript,
}

impl InputMode {
    /// Returns the index at which the input starts in the messages after the head. The messages before it are the
    /// transcript.
    ///
    /// ```
    /// use tower_chat_history_context::{InputMode, Message};
    ///
    /// let messages = [Message::user("Hi"), Message::assistant("Hello!"), Message::user("And?")];
    /// assert_eq!(InputMode::New.input_start(&messages), 0);
    /// assert_eq!(InputMode::Transcript.input_start(&messages), 2);
    /// ```
    #[must_use]
    pub fn input_start(self, messages: &[Message]) -> usize {
        match self {
            Self::New => 0,
            Self::Transcript => {
                messages.iter().rposition(|message| *message.role() == Role::Assistant).map_or(0, |last| last + 1)
            }
        }
    }
}

//! Which part of a request is new.

use tower_chat_history_core::{Message, Role};

/// What of a request is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputMode {
    /// Everything behind the head. A reply among it (an assistant message without tool calls) is refused with
    /// [`InputError::Resent`](crate::InputError::Resent): the caller resends what the log has.
    #[default]
    New,
    /// What comes after the last assistant message. The caller keeps its own list and sends all of it, as code that was
    /// written without history does: what stands before the input is compared with the log's end, and the window is sent in
    /// its place.
    ///
    /// So the caller's list must be what was stored, apart from white space around texts. It may lack a reply that
    /// broke off and whose text was kept. Take a reply out of it that was not saved, and do not store other messages
    /// than those that were sent. `OnTranscriptMismatch` says what another list does.
    Transcript,
}

impl InputMode {
    /// Where the input starts among the messages behind the head. What stands before it is the
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

//! The mode that decides which messages of a request are new.

use tower_chat_history_core::Message;

/// Decides which messages of a request are its input, that is, new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum InputMode {
    /// All messages after the head are input. If they contain a reply (an assistant message without tool calls), the
    /// caller probably resends messages of the log, and the call is refused with
    /// [`InputError::Resent`](crate::context::InputError::Resent).
    #[default]
    New,
    /// All messages after the last assistant message are input. This mode is for callers that keep their own list of
    /// messages and send all of it, such as code that was written without history. The messages between head and input
    /// (the transcript) are compared with the end of the log, and the window is sent in their place.
    ///
    /// The transcript must therefore equal the stored messages, apart from white space around texts, and the spelling
    /// of the arguments of calls. It may lack exchanges with a partial reply. If a reply was not saved, remove it from
    /// the list. Do not set `store_instead`, because the stored messages then differ from the list.
    /// `OnTranscriptMismatch` sets the policy for a transcript that differs.
    Transcript,
}

impl InputMode {
    /// Returns the index at which the input starts in the messages after the head. The messages before it are the
    /// transcript.
    ///
    /// ```
    /// use tower_chat_history::{InputMode, Message};
    ///
    /// let messages = [Message::user("Hi"), Message::assistant("Hello!"), Message::user("And?")];
    /// assert_eq!(InputMode::New.input_start(&messages), 0);
    /// assert_eq!(InputMode::Transcript.input_start(&messages), 2);
    /// ```
    #[must_use]
    pub fn input_start(self, messages: &[Message]) -> usize {
        match self {
            Self::New => 0,
            Self::Transcript => messages.iter().rposition(Message::is_reply).map_or(0, |last| last + 1),
        }
    }
}

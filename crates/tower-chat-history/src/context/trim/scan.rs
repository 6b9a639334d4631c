//! Counting the messages that fit, from the newest or from the oldest message on.

use tower_chat_history_core::Message;

use crate::context::tokens::{TokenCounter, tokens_of};

/// The scanned part of a list. The scan starts at the newest or at the oldest message, whichever side is kept. The
/// messages are in the order of the list.
pub(super) struct Scanned {
    /// The messages up to and including the first one that does not fit.
    pub(super) messages: Vec<Message>,
    /// True if the newest messages are kept.
    pub(super) from_end: bool,
    /// The number of messages that fit, counted from the side that is kept.
    pub(super) fitting: usize,
    /// The tokens that are left next to the messages that fit.
    pub(super) left: u64,
}

impl Scanned {
    /// Scans a list, which the iterator yields from the side that is kept. The scan stops at the first message that
    /// does not fit, and counts no message twice.
    pub(super) fn of<'a, C: TokenCounter + ?Sized>(
        list: impl Iterator<Item = &'a Message>,
        from_end: bool,
        max_tokens: u64,
        counter: &C,
    ) -> Self {
        let mut messages = Vec::new();
        let mut fitting = 0;
        let mut left = max_tokens;
        for message in list {
            messages.push(message.clone());
            let Some(rest) = left.checked_sub(tokens_of(counter, message).into()) else { break };
            left = rest;
            fitting += 1;
        }

        if from_end {
            messages.reverse();
        }
        Self { messages, from_end, fitting, left }
    }

    /// Returns the messages that fit.
    pub(super) fn fitting_messages(&self) -> &[Message] {
        if self.from_end {
            &self.messages[self.messages.len() - self.fitting..]
        } else {
            &self.messages[..self.fitting]
        }
    }

    /// Returns the first message that does not fit.
    pub(super) fn first_too_large(&self) -> Option<&Message> {
        if self.from_end { self.messages.iter().nth_back(self.fitting) } else { self.messages.get(self.fitting) }
    }
}

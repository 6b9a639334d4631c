//! Reading a list from one of its ends, up to the first message that does not fit.
//!
//! Results that do not follow their call must neither cost tokens nor decide where the trimmed list begins or ends, so
//! they are removed before anything else. Both iterators are lazy: they read little more of the list than is consumed.
//! This is possible because a single message decides if a result follows its call: the nearest earlier message that is
//! not a result. That message must have the call.

use std::iter;

use tower_chat_history_core::Message;

use crate::context::{
    tokens::{TokenCounter, tokens_of},
    view::OpenCalls,
};

/// Iterates over the list from its beginning. If `keep_pairs` is true, results that do not follow their call are left
/// out.
pub(super) fn from_start(messages: &[Message], keep_pairs: bool) -> impl Iterator<Item = &Message> {
    let mut open = OpenCalls::default();
    messages.iter().filter(move |message| !keep_pairs || follows_its_call(message, &mut open))
}

/// Iterates over the list from its end. If `keep_pairs` is true, results that do not follow their call are left out.
pub(super) fn from_end(messages: &[Message], keep_pairs: bool) -> impl Iterator<Item = &Message> {
    let mut rest = messages;
    let mut following: Vec<&Message> = Vec::new();
    iter::from_fn(move || {
        if !keep_pairs {
            let (last, before) = rest.split_last()?;
            rest = before;
            return Some(last);
        }
        while following.is_empty() {
            if rest.is_empty() {
                return None;
            }
            // A block is a message and the results after it, or the results at the beginning of the list.
            let start = rest.iter().rposition(|message| !message.is_tool_result()).unwrap_or_default();
            let (before, block) = rest.split_at(start);
            following.extend(from_start(block, true));
            rest = before;
        }
        following.pop()
    })
}

/// Updates the open calls with a message. Returns `false` if the message is a result that answers none of them.
fn follows_its_call(message: &Message, open: &mut OpenCalls) -> bool {
    if message.is_tool_result() {
        return !message.answers().is_empty() && open.answer_all(message).is_ok();
    }
    *open = OpenCalls::of(message);
    true
}

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

//! Counting the messages that fit, from the newest or from the oldest message on.

use tower_chat_history_core::Message;

use crate::tokens::CountMessages;

/// The scanned part of a list. The scan starts at the newest or at the oldest message, whichever side is kept. The
/// messages are in the order of the list.
pub(super) struct Scanned {
    /// The messages up to and including the first one that does not fit.
    pub(super) messages: Vec<Message>,
    /// True if the newest messages are kept.
    pub(super) from_end: bool,
    /// The number of messages that fit, counted from the side that is kept.
    pub(super) fitting: usize,
}

impl Scanned {
    /// Scans a list, which the iterator yields from the side that is kept. If the counter is additive, the scan stops
    /// at the first message that does not fit, and counts no message twice.
    pub(super) fn of<'a, C: CountMessages + ?Sized>(
        list: impl Iterator<Item = &'a Message>,
        from_end: bool,
        max_tokens: u64,
        counter: &C,
    ) -> Self {
        let (mut messages, mut fitting, mut left, mut adds_up) = (Vec::new(), 0, max_tokens, true);
        for message in list {
            messages.push(message.clone());
            let tokens = if adds_up { counter.count_one(message) } else { None };
            adds_up = tokens.is_some();
            if let Some(tokens) = tokens {
                let Some(rest) = left.checked_sub(tokens) else { break };
                (left, fitting) = (rest, fitting + 1);
            }
        }
        if from_end {
            messages.reverse();
        }
        let mut scanned = Self { messages, from_end, fitting };
        if !adds_up {
            scanned.fitting = scanned.search_fitting(max_tokens, counter);
        }
        scanned
    }

    /// Finds the number of messages that fit as LangChain does: it counts the whole list first, and then does a binary
    /// search.
    fn search_fitting<C: CountMessages + ?Sized>(&self, max_tokens: u64, counter: &C) -> usize {
        let fits = |count: usize| counter.count(self.kept(count)) <= max_tokens;
        let all = self.messages.len();
        if fits(all) { all } else { largest_fitting(all, fits) }
    }

    /// Returns the `count` messages at the side that is kept, in the order of the list.
    fn kept(&self, count: usize) -> &[Message] {
        if self.from_end { &self.messages[self.messages.len() - count..] } else { &self.messages[..count] }
    }

    /// Returns the messages that fit.
    pub(super) fn fitting_messages(&self) -> &[Message] {
        self.kept(self.fitting)
    }

    /// Returns the first message that does not fit.
    pub(super) fn first_too_large(&self) -> Option<&Message> {
        if self.from_end { self.messages.iter().nth_back(self.fitting) } else { self.messages.get(self.fitting) }
    }
}

/// Returns the largest number in `0..=all` that fits. If a number fits, all smaller ones must fit too.
pub(super) fn largest_fitting(all: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut end) = (0, all);
    while fitting < end {
        let middle = (fitting + end).div_ceil(2);
        if fits(middle) {
            fitting = middle;
        } else {
            end = middle - 1;
        }
    }
    fitting
}

//! How many messages fit, from one end of a list.

use tower_chat_history_core::Message;

use crate::tokens::CountMessages;

/// What of a list is looked at, as it stands there: from its beginning, or from its end.
pub(super) struct Looked {
    /// The messages up to the first one that does not fit.
    pub(super) messages: Vec<Message>,
    pub(super) from_end: bool,
    /// How many of them fit, the most there are in front.
    pub(super) fitting: usize,
}

impl Looked {
    /// Looks at a list, which comes from the end that is kept. Where counts add up, it is taken no further than to the first
    /// message that does not fit, and none is counted twice.
    pub(super) fn at<'a, C: CountMessages + ?Sized>(
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
        let mut looked = Self { messages, from_end, fitting };
        if !adds_up {
            looked.fitting = looked.fitting_by_halves(max_tokens, counter);
        }
        looked
    }

    /// As LangChain does it: the whole list first, then halves.
    fn fitting_by_halves<C: CountMessages + ?Sized>(&self, max_tokens: u64, counter: &C) -> usize {
        let fits = |count: usize| counter.count(self.front(count)) <= max_tokens;
        let all = self.messages.len();
        if fits(all) { all } else { most(all, fits) }
    }

    /// The first ones, as they stand in the list.
    fn front(&self, count: usize) -> &[Message] {
        if self.from_end { &self.messages[self.messages.len() - count..] } else { &self.messages[..count] }
    }

    /// Those that fit.
    pub(super) fn that_fit(&self) -> &[Message] {
        self.front(self.fitting)
    }

    /// The first one that does not fit.
    pub(super) fn next(&self) -> Option<&Message> {
        if self.from_end { self.messages.iter().nth_back(self.fitting) } else { self.messages.get(self.fitting) }
    }
}

/// The most of `0..=all` that fits, if whatever is less than what fits fits too.
pub(super) fn most(all: usize, fits: impl Fn(usize) -> bool) -> usize {
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

//! How many messages fit, from one end of a list.

use std::iter;

use tower_chat_history_core::Message;

use crate::tokens::CountMessages;

/// A list as it is gone through: from its beginning, or from its end.
#[derive(Clone, Copy)]
pub(super) struct Ordered<'a> {
    pub(super) messages: &'a [Message],
    pub(super) from_end: bool,
}

impl<'a> Ordered<'a> {
    pub(super) fn get(&self, index: usize) -> Option<&'a Message> {
        if self.from_end { self.messages.iter().nth_back(index) } else { self.messages.get(index) }
    }

    /// How many messages fit, the most there are in front.
    pub(super) fn fitting<C: CountMessages + ?Sized>(&self, max_tokens: u64, counter: &C) -> usize {
        let Some(first) = self.get(0) else { return 0 };
        match counter.count_one(first) {
            Some(tokens) => self.fitting_one_by_one(tokens, max_tokens, counter),
            None => self.fitting_by_halves(max_tokens, counter),
        }
    }

    /// None is counted twice, and of those that do not fit only the next.
    fn fitting_one_by_one<C: CountMessages + ?Sized>(&self, first: u64, max_tokens: u64, counter: &C) -> usize {
        let rest = (1..).map_while(|index| counter.count_one(self.get(index)?));
        let mut left = max_tokens;
        let fits = |tokens: &u64| {
            let rest = left.checked_sub(*tokens);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        iter::once(first).chain(rest).take_while(fits).count()
    }

    /// As LangChain does it: the whole list first, then halves.
    fn fitting_by_halves<C: CountMessages + ?Sized>(&self, max_tokens: u64, counter: &C) -> usize {
        let fits = |count: usize| counter.count(self.front(count)) <= max_tokens;
        let all = self.messages.len();
        if fits(all) { all } else { most(all, fits) }
    }

    /// The first ones, as they stand in the list.
    pub(super) fn front(&self, count: usize) -> &'a [Message] {
        if self.from_end { &self.messages[self.messages.len() - count..] } else { &self.messages[..count] }
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

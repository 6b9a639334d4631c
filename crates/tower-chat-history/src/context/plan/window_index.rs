//! The exchanges of a window, by index.

use std::{cell::OnceCell, ops::Add};

use tower_chat_history_core::{Cut, Message, Recorded, Seq};

use super::item::{Extent, Item};
use crate::context::server_tools::needs_reply;

/// Returns `true` if a window may start at an exchange: it opens a turn, and has a message that closes the calls
/// that are open before it. An exchange that has only results and blank replies leaves them open.
pub(crate) fn can_start_window(recorded: &Recorded) -> bool {
    recorded.exchange.opens_turn() && recorded.exchange.closes_open_calls()
}

/// A pair of cutoffs, as indexes of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutoffs {
    /// The start of the window.
    pub(super) window: usize,
    /// Rounds that are followed by an exchange before this index are left out.
    pub(super) rounds: usize,
}

impl Cutoffs {
    /// Returns the cutoffs of a cut.
    pub(super) fn of(cut: &Cut, first: Seq, exchanges: usize) -> Self {
        let window = index(cut.window_start, first).min(exchanges);
        Self { window, rounds: index(cut.rounds_start, first).min(exchanges).max(window) }
    }
}

/// A number of tokens and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) tokens: u64,
    pub(crate) messages: usize,
}

impl Size {
    /// Returns the difference to a smaller size. The difference of tokens saturates at 0: with some counters, a short
    /// result costs fewer tokens than the placeholder that replaced it.
    pub(super) const fn less(self, rest: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(rest.tokens), messages: self.messages.saturating_sub(rest.messages) }
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, messages: self.messages.saturating_add(other.messages) }
    }
}

/// The exchanges of a window. An index is the distance of an exchange from the first one.
///
/// A call that opens a turn and leaves out nothing needs neither openings nor starts. So they are found when they are
/// first needed.
pub(super) struct WindowIndex<'a> {
    exchanges: &'a [Recorded],
    /// The position of the first exchange.
    pub(super) first: Seq,
    /// The number of exchanges.
    pub(super) len: usize,
    /// The previous cut.
    pub(super) base: Cutoffs,
    starts: OnceCell<Vec<usize>>,
    openings: OnceCell<Vec<usize>>,
    /// The largest cutoffs: the turn that the input belongs to stays, and so does the round that it answers.
    pub(super) most: Cutoffs,
    pub(super) continues: bool,
}

impl<'a> WindowIndex<'a> {
    pub(super) fn of(exchanges: &'a [Recorded], cut: &Cut, continues: Option<Seq>) -> Self {
        let len = exchanges.len();
        let first = exchanges.first().map_or(cut.window_start, |recorded| recorded.seq);
        let base = Cutoffs::of(cut, first, len);

        // If the input does not answer the last round, this call may leave it out. That is not stored with this call,
        // because the call may fail, and a later one may still answer the round.
        let most = Cutoffs { window: len, rounds: len + 1 };
        let mut index = Self {
            exchanges,
            first,
            len,
            base,
            starts: OnceCell::new(),
            openings: OnceCell::new(),
            most,
            continues: continues.is_some(),
        };

        if let Some(seq) = continues {
            let asked = index.index(seq);
            let turn = index.starts().iter().rev().copied().find(|start| *start <= asked && *start < len);
            // The round that the input continues has the position of the next exchange, so it stays.
            index.most = Cutoffs { window: turn.unwrap_or(base.window), rounds: len };
        }
        index
    }

    /// Returns the indexes of openings. The window's first exchange counts as one.
    pub(super) fn openings(&self) -> &[usize] {
        self.openings.get_or_init(|| {
            (self.base.window..self.len)
                .filter(|at| *at == self.base.window || can_start_window(&self.exchanges[*at]))
                .collect()
        })
    }

    /// Returns the indexes at which the window may start: openings whose first message that is sent is no reply and
    /// needs no message before it, and the end.
    pub(super) fn starts(&self) -> &[usize] {
        self.starts.get_or_init(|| {
            let starts = self.openings().iter().copied().filter(|opening| self.is_start(*opening));
            starts.chain([self.len]).collect()
        })
    }

    fn is_start(&self, opening: usize) -> bool {
        if opening == self.base.window {
            return true;
        }

        // A message that says nothing is not sent. Neither is a result, because no call is open at a start. An
        // instruction that needs a reply also needs a message of the user before it.
        let mut messages = self.exchanges[opening].exchange.messages.iter();
        let first = messages.find(|message| !message.is_blank() && !message.is_tool_result() && !needs_reply(message));
        first.is_none_or(|message| !message.is_reply())
    }

    /// Returns the size of what is sent of these items with the previous cut.
    pub(super) fn size(&self, items: &[Item], cost: impl Fn(&Message) -> u64) -> Size {
        let extent = self.extent(self.base);
        let mut size = Size::default();
        for message in items.iter().filter_map(|item| item.message_in(extent)) {
            size = size + Size { tokens: cost(message), messages: 1 };
        }
        size
    }

    /// Returns the extent of a prompt with these cutoffs.
    pub(super) fn extent(&self, at: Cutoffs) -> Extent {
        Extent { window: self.seq(at.window), rounds: self.seq(at.rounds.max(at.window)) }
    }

    pub(super) fn seq(&self, index: usize) -> Seq {
        Seq::new(self.first.get().saturating_add(index as u64))
    }

    pub(super) fn index(&self, seq: Seq) -> usize {
        index(seq, self.first).min(self.len)
    }

    /// Returns the number of turns of a window that starts at this index, without the turn of the input.
    pub(super) fn turns(&self, window: usize) -> usize {
        self.openings_before(self.most.window).saturating_sub(self.openings_before(window))
    }

    fn openings_before(&self, index: usize) -> usize {
        self.openings().partition_point(|opening| *opening < index)
    }

    /// Returns the index at which this number of the newest turns begins, without the turn of the input. If there are
    /// fewer, it is the start of the window.
    pub(super) fn start_of_newest(&self, turns: usize) -> usize {
        let before = self.openings_before(self.most.window);
        if turns == 0 {
            return self.most.window;
        }
        before.checked_sub(turns).and_then(|at| self.openings().get(at).copied()).unwrap_or(self.base.window)
    }

    /// Returns the last start that is an exchange of the log, so that it can be stored.
    pub(super) fn last_start(&self) -> usize {
        self.starts().iter().rev().copied().find(|start| *start < self.len).unwrap_or(self.base.window)
    }
}

/// Returns the index of a position: its distance from the first one.
pub(super) fn index(seq: Seq, first: Seq) -> usize {
    usize::try_from(seq.get().saturating_sub(first.get())).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{AnthropicMessages, Exchange, ExchangeId};

    use super::*;

    #[test]
    fn a_window_does_not_start_with_an_instruction_that_the_provider_takes_only_after_the_user() {
        let message = |role: &str| {
            let json = format!(r#"{{"role":"{role}","content":"so"}}"#);
            Message::in_dialect(&AnthropicMessages, json).unwrap()
        };
        let instructed = vec![message("system"), message("assistant")];
        let exchanges = [vec![message("user")], instructed, vec![message("user"), message("system")]];
        let exchanges = exchanges.map(|messages| Exchange::new(ExchangeId::generate(), messages));
        let recorded = (0..).zip(exchanges).map(|(seq, exchange)| Recorded::new(Seq::new(seq), exchange));
        let recorded: Vec<_> = recorded.collect();
        let index = WindowIndex::of(&recorded, &Cut::default(), None);
        assert_eq!((index.openings(), index.starts()), (&[0, 1, 2][..], &[0, 2, 3][..]));
    }

    #[test]
    fn the_turn_that_the_input_continues_stays_in_the_window() {
        let turn = || [Message::user("u"), Message::assistant("a")];
        let recorded = |seq: u64, continues: Option<u64>| {
            let mut exchange = Exchange::new(ExchangeId::generate(), turn());
            exchange.continues = continues.map(Seq::new);
            Recorded::new(Seq::new(seq), exchange)
        };
        let log = [recorded(4, None), recorded(5, None), recorded(6, Some(5)), recorded(7, None)];
        let last_start = |log: &[Recorded], continues: Option<u64>| {
            let index = WindowIndex::of(log, &Cut::default(), continues.map(Seq::new));
            (index.most.window, index.most.rounds)
        };
        assert_eq!(last_start(&log, None), (4, 5));
        assert_eq!([4, 5, 6, 7, 9].map(|seq| last_start(&log, Some(seq))), [(0, 4), (1, 4), (1, 4), (3, 4), (3, 4)]);
        assert_eq!(last_start(&[], Some(0)), (0, 0));
    }

    #[test]
    fn a_window_does_not_start_with_a_reply_after_messages_that_are_not_sent() {
        let turn = [Message::user("u"), Message::assistant("a")];
        let late = [Message::tool("x", "late"), Message::assistant("a")];
        let blank = [Message::assistant(""), Message::assistant("a")];
        let exchanges = [&turn, &late, &turn, &blank, &turn];
        let exchanges = exchanges.map(|messages| Exchange::new(ExchangeId::generate(), messages.clone()));
        let recorded = (0..).zip(exchanges).map(|(seq, exchange)| Recorded::new(Seq::new(seq), exchange));
        let recorded: Vec<_> = recorded.collect();
        let index = WindowIndex::of(&recorded, &Cut::default(), None);
        assert_eq!((index.openings(), index.starts()), (&[0, 1, 2, 3, 4][..], &[0, 2, 4, 5][..]));
    }
}

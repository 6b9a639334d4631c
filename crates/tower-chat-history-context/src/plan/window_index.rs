//! What is known of a window's exchanges.

use tower_chat_history_core::{Cut, Recorded, Role, Seq};

use super::{
    fold::Item,
    sizes::{Cutoffs, Sizes, index},
};

/// Whether a window may start at an exchange: it opens a turn, and has a message that closes the calls which are open
/// before it. An exchange of nothing but results and blank replies leaves them open.
#[must_use]
pub fn opens_turn(recorded: &Recorded) -> bool {
    recorded.exchange.opens_turn() && recorded.exchange.closes_open_calls()
}

/// A window's exchanges, by index behind the first one.
pub(super) struct WindowIndex {
    pub(super) first: Seq,
    pub(super) len: usize,
    /// The cut that holds so far.
    pub(super) base: Cutoffs,
    /// Where the window may start: at what opens a turn, and not with a reply; or behind everything.
    pub(super) starts: Vec<usize>,
    /// Where turns open. The window's first exchange counts as one.
    pub(super) openings: Vec<usize>,
    /// The furthest that may be gone: the turn that the input belongs to stays, and the round that it answers.
    pub(super) most: Cutoffs,
    pub(super) continues: bool,
}

impl WindowIndex {
    pub(super) fn of(exchanges: &[Recorded], cut: &Cut, continues: Option<Seq>) -> Self {
        let len = exchanges.len();
        let first = exchanges.first().map_or(cut.window_start, |recorded| recorded.seq);
        let base = Cutoffs::of(cut, first, len);
        let opens = |at: &usize| *at == base.window || opens_turn(&exchanges[*at]);
        let openings: Vec<usize> = (base.window..len).filter(opens).collect();
        let is_asked = |at: &usize| {
            let first = exchanges[*at].exchange.messages.first();
            *at == base.window || first.is_none_or(|message| *message.role() != Role::Assistant)
        };
        let mut starts: Vec<usize> = openings.iter().copied().filter(is_asked).collect();
        let most = match continues {
            Some(seq) => {
                let asked = index(seq, first).min(len);
                let turn = starts.iter().rev().copied().find(|start| *start <= asked);
                // The round that the input continues is followed by nothing, so it stays.
                Cutoffs { window: turn.unwrap_or(base.window), rounds: len }
            }
            // A round that the input leaves behind may be gone for this call. It is stored by the next one, if at all:
            // this one may come to nothing, and the round be continued.
            None => Cutoffs { window: len, rounds: len + 1 },
        };
        starts.push(len);
        Self { first, len, base, starts, openings, most, continues: continues.is_some() }
    }

    pub(super) fn sizes(&self, items: &[Item], cost: impl Fn(&Item) -> u64) -> Sizes {
        Sizes::of(items, self.first, self.len, cost)
    }

    pub(super) fn seq(&self, index: usize) -> Seq {
        Seq::new(self.first.get().saturating_add(index as u64))
    }

    pub(super) fn index(&self, seq: Seq) -> usize {
        index(seq, self.first).min(self.len)
    }

    /// How many turns a window has that starts there, without the one that the input belongs to.
    pub(super) fn turns(&self, window: usize) -> usize {
        self.openings.iter().filter(|opening| (window..self.most.window).contains(*opening)).count()
    }

    /// The last start that the log itself has, so that it can be stored.
    pub(super) fn last_start(&self) -> usize {
        self.starts.iter().rev().copied().find(|start| *start < self.len).unwrap_or(self.base.window)
    }
}

//! The sizes of a window at every pair of cutoffs, computed from sums.

use tower_chat_history_core::{Cut, Message, Seq};

use super::fold::Item;

/// A pair of cutoffs, as indexes of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutoffs {
    /// The start of the window.
    pub(super) window: usize,
    /// Rounds that are followed by an exchange before this index are left out.
    pub(super) rounds: usize,
}

/// The sizes of a window's messages. The value at each index is the sum for this exchange and all later ones.
#[derive(Debug)]
pub(super) struct Sizes {
    /// The messages that belong to no round.
    plain: Vec<Size>,
    /// The messages of rounds, at the exchange with the round's calls.
    asked: Vec<Size>,
    /// The messages of rounds, at the exchange that follows the round.
    followed: Vec<Size>,
}

/// A number of tokens and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub tokens: u64,
    pub messages: usize,
}

impl Size {
    /// Returns the difference to a smaller size. The difference of tokens saturates at 0: with some counters, a short
    /// result costs fewer tokens than the placeholder that replaced it.
    pub(super) const fn less(self, rest: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(rest.tokens), messages: self.messages.saturating_sub(rest.messages) }
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, messages: self.messages.saturating_add(other.messages) }
    }
}

impl Sizes {
    /// Computes the sizes of the items of `exchanges` exchanges, the first of which is at `first`.
    pub(super) fn of(items: &[Item], first: Seq, exchanges: usize, cost: impl Fn(&Message) -> u64) -> Self {
        // There are two more indexes: that of the next exchange, which may follow a round, and the one after it, as the
        // cutoff that leaves out such a round.
        let mut sums = [0; 3].map(|_| vec![Size::default(); exchanges + 2]);
        let [plain, asked, followed] = &mut sums;
        let add = |sums: &mut Vec<Size>, seq, size| {
            let sum = &mut sums[index(seq, first).min(exchanges)];
            *sum = *sum + size;
        };
        for Item { message, seq, round, rest, .. } in items {
            let size = Size { tokens: cost(message), messages: 1 };
            // The rest of a message stays if the round is left out.
            let staying = rest.as_ref().map_or(Size::default(), |rest| Size { tokens: cost(rest), messages: 1 });
            match round {
                Some(round) => {
                    add(plain, *seq, staying);
                    add(asked, round.asked, size.less(staying));
                    add(followed, round.followed, size.less(staying));
                }
                None => add(plain, *seq, size),
            }
        }
        for sums in &mut sums {
            for at in (0..=exchanges).rev() {
                sums[at] = sums[at] + sums[at + 1];
            }
        }
        let [plain, asked, followed] = sums;
        Self { plain, asked, followed }
    }

    /// Returns the size of the messages that are kept at these cutoffs.
    pub(super) fn kept(&self, at: Cutoffs) -> Size {
        // Rounds do not overlap, so one of the cutoffs keeps all rounds that the other keeps. The rounds that both keep
        // are the smaller of the two sets.
        let (asked, followed) = (self.asked[at.window], self.followed[at.rounds]);
        self.plain[at.window] + if asked.messages < followed.messages { asked } else { followed }
    }

    /// Returns the first cutoff of rounds within the bounds for which the kept size is accepted, by a binary search.
    /// Larger cutoffs keep less.
    fn first_rounds(&self, window: usize, bounds: Bounds, accept: impl Fn(Size) -> bool) -> Option<Cutoffs> {
        let least = bounds.least.rounds.max(window);
        let most = bounds.most.rounds.max(least);
        let at = |rounds| Cutoffs { window, rounds };
        let (mut low, mut high) = (least, most);
        while low < high {
            let middle = low.midpoint(high);
            if accept(self.kept(at(middle))) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        accept(self.kept(at(low))).then_some(at(low))
    }

    /// Returns the accepted cutoffs that keep the most tokens. If several keep the same, it returns those with the
    /// earliest start of the window: exchanges that this prompt lacks, because a message stands for them, can be in the
    /// prompt of another provider. `starts` are the possible starts, in order.
    pub(super) fn best(
        &self,
        starts: impl IntoIterator<Item = usize>,
        bounds: Bounds,
        accept: impl Fn(Size) -> bool + Copy,
    ) -> Option<Cutoffs> {
        let starts = starts.into_iter().filter(|start| (bounds.least.window..=bounds.most.window).contains(start));
        let pairs = starts.filter_map(|window| self.first_rounds(window, bounds, accept));
        let earliest =
            |best: Cutoffs, at: Cutoffs| if self.kept(at).tokens > self.kept(best).tokens { at } else { best };
        pairs.reduce(earliest)
    }
}

/// The bounds of the cutoffs, both inclusive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: Cutoffs,
    pub(super) most: Cutoffs,
}

/// Returns the index of a position: its distance from the first one.
pub(super) fn index(seq: Seq, first: Seq) -> usize {
    usize::try_from(seq.get().saturating_sub(first.get())).unwrap_or(usize::MAX)
}

impl Cutoffs {
    /// Returns the cutoffs of a cut.
    pub(super) fn of(cut: &Cut, first: Seq, exchanges: usize) -> Self {
        let window = index(cut.window_start, first).min(exchanges);
        Self { window, rounds: index(cut.rounds_start, first).min(exchanges).max(window) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_starts_that_keep_the_same_the_earliest_is_used() {
        let message = Message::user("u");
        let (seq, round, rest) = (Seq::new(2), None, None);
        let item = Item {
            message,
            seq,
            round,
            rest,
            is_recalled: false,
            is_reply: false,
            is_settled: false,
            is_left_out: false,
        };
        let sizes = Sizes::of(&[item], Seq::FIRST, 4, |_| 1);
        let at = |at| Cutoffs { window: at, rounds: at };
        let bounds = Bounds { least: at(0), most: at(4) };
        assert_eq!(sizes.best([0, 1, 2, 3, 4], bounds, |_| true), Some(at(0)), "1 and 2 keep as much");
        assert_eq!(sizes.best([1, 2, 3, 4], bounds, |_| true), Some(at(1)));
    }
}

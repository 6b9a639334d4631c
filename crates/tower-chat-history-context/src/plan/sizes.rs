//! What is kept of a window at every pair of positions, by sums.

use tower_chat_history_core::{Cut, Seq};

use super::fold::Item;

/// Where the window starts, and before which position rounds are left out with what follows them; as indexes of
/// exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cutoffs {
    pub(super) window: usize,
    pub(super) rounds: usize,
}

/// The sizes of a window's messages, summed up from its end.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Of what belongs to no round: from each exchange on.
    plain: Vec<Size>,
    /// Of rounds: whose calls stand in that exchange or a later one.
    asked: Vec<Size>,
    /// Of rounds: what follows them stands in that exchange or a later one.
    followed: Vec<Size>,
}

/// Tokens and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub tokens: u64,
    pub messages: usize,
}

impl Size {
    /// What is gone. By tokens it may be nothing although something was cleared: a short text may cost less than the
    /// placeholder, which has fewer bytes.
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
    /// The sizes of items in `exchanges` exchanges, the first of which is at `first`.
    pub(super) fn of(items: &[Item], first: Seq, exchanges: usize, cost: impl Fn(&Item) -> u64) -> Self {
        // What follows a round may be an exchange that is not there yet, and a position of rounds lie beyond it.
        let mut sums = [0; 3].map(|_| vec![Size::default(); exchanges + 2]);
        let [plain, asked, followed] = &mut sums;
        for item in items {
            let size = Size { tokens: cost(item), messages: 1 };
            let add = |sums: &mut Vec<Size>, seq| {
                let sum = &mut sums[index(seq, first).min(exchanges)];
                *sum = *sum + size;
            };
            match item.round {
                Some(round) => {
                    add(asked, round.asked);
                    add(followed, round.followed);
                }
                None => add(plain, item.seq),
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

    /// What is kept at these positions.
    pub(super) fn kept(&self, at: Cutoffs) -> Size {
        // Rounds stand one after the other: of those from the one position on and those from the other, the fewer are
        // both.
        let (asked, followed) = (self.asked[at.window], self.followed[at.rounds]);
        self.plain[at.window] + if asked.messages < followed.messages { asked } else { followed }
    }

    /// The first position of rounds, within the bounds, at which what is kept is accepted: the more is left out, the less is
    /// kept.
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

    /// Of all pairs of positions that are accepted, the one that keeps most tokens; of those that keep the same, the one with
    /// the later window. `starts` are the possible starts of the window, in order.
    pub(super) fn best(
        &self,
        starts: impl IntoIterator<Item = usize>,
        bounds: Bounds,
        accept: impl Fn(Size) -> bool + Copy,
    ) -> Option<Cutoffs> {
        let starts = starts.into_iter().filter(|start| (bounds.least.window..=bounds.most.window).contains(start));
        let pairs = starts.filter_map(|window| self.first_rounds(window, bounds, accept));
        pairs.max_by_key(|at| self.kept(*at).tokens)
    }
}

/// Between which positions may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: Cutoffs,
    pub(super) most: Cutoffs,
}

/// The index of a position, in exchanges behind the first one.
pub(super) fn index(seq: Seq, first: Seq) -> usize {
    usize::try_from(seq.get().saturating_sub(first.get())).unwrap_or(usize::MAX)
}

impl Cutoffs {
    /// Those of a cut.
    pub(super) fn of(cut: &Cut, first: Seq, exchanges: usize) -> Self {
        let window = index(cut.window_start, first).min(exchanges);
        Self { window, rounds: index(cut.rounds_start, first).min(exchanges).max(window) }
    }
}

//! The sizes of a window at every pair of cutoffs, computed from sums.

use tower_chat_history_core::{Cut, Message, Seq};

use super::item::Item;

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
        for Item { message, seq, round, rest, .. } in items {
            let size = Size { tokens: cost(message), messages: 1 };
            // The rest of a message stays if the round is left out.
            let staying = rest.as_ref().map_or(Size::default(), |rest| Size { tokens: cost(rest), messages: 1 });
            let at = index(*seq, first).min(exchanges);
            let Some(round) = round else {
                plain[at] = plain[at] + size;
                continue;
            };
            let asked_at = index(round.asked, first).min(exchanges);
            let followed_at = index(round.followed, first).min(exchanges);
            plain[at] = plain[at] + staying;
            asked[asked_at] = asked[asked_at] + size.less(staying);
            followed[followed_at] = followed[followed_at] + size.less(staying);
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
        let asked = self.asked[at.window];
        let followed = self.followed[at.rounds];
        self.plain[at.window] + if asked.messages < followed.messages { asked } else { followed }
    }

    /// Returns the accepted cutoffs that keep the most tokens. If several keep the same, it returns those with the
    /// earliest start of the window: exchanges that this prompt lacks, because a message stands for them, can be in the
    /// prompt of another provider. `starts` are the possible starts, in order.
    ///
    /// If a size is accepted, each smaller one must be, too. A later start keeps less, so it needs no larger cutoff of
    /// rounds than an earlier one. The smallest accepted cutoffs of all starts are therefore found in one pass, in
    /// which the cutoff of rounds only decreases until the start reaches it.
    pub(super) fn best(
        &self,
        starts: impl IntoIterator<Item = usize>,
        bounds: Bounds,
        accept: impl Fn(Size) -> bool,
    ) -> Option<Cutoffs> {
        let mut best: Option<Cutoffs> = None;
        let mut accepted = None;
        for window in starts.into_iter().filter(|start| (bounds.least.window..=bounds.most.window).contains(start)) {
            let least = bounds.least.rounds.max(window);
            let most = bounds.most.rounds.max(least);
            let mut at = Cutoffs { window, rounds: accepted.map_or(most, |accepted: usize| accepted.max(least)) };
            if !accept(self.kept(at)) {
                continue;
            }

            while at.rounds > least && accept(self.kept(Cutoffs { window, rounds: at.rounds - 1 })) {
                at.rounds -= 1;
            }
            accepted = Some(at.rounds);
            if best.is_none_or(|best| self.kept(at).tokens > self.kept(best).tokens) {
                best = Some(at);
            }
        }
        best
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
    use proptest::prelude::*;

    use super::{super::item::Round, *};

    /// Creates an item. If a part of it stays without its round, that part has one token.
    fn item(tokens: usize, seq: usize, round: Option<Round>, has_rest: bool) -> Item {
        let message = Message::user("u".repeat(tokens));
        let rest = has_rest.then(|| Message::user("u"));
        Item { round, rest, ..Item::new(message, Seq::new(seq as u64)) }
    }

    /// Returns the sizes of a log. Each exchange has a plain message, and some begin a round, which a later exchange
    /// follows.
    fn sizes(log: &[(usize, Option<(usize, usize, bool)>)]) -> Sizes {
        let (mut items, mut free_from) = (Vec::new(), 0);
        for (at, (plain, round)) in log.iter().enumerate() {
            items.push(item(*plain, at, None, false));
            if let Some((tokens, exchanges, has_rest)) = round.filter(|_| at >= free_from) {
                free_from = at + exchanges;
                let [asked, followed] = [at, free_from].map(|at| Seq::new(at as u64));
                let round = Some(Round { asked, followed });
                // The calls of a round have no rest.
                items.extend([item(tokens, at, round, false), item(tokens, free_from, round, has_rest)]);
            }
        }
        Sizes::of(&items, Seq::FIRST, log.len(), |message| message.text().len() as u64)
    }

    fn accepts(room: Size, size: Size) -> bool {
        size.tokens <= room.tokens && size.messages <= room.messages
    }

    /// Tries all pairs.
    fn best_of_all(sizes: &Sizes, starts: &[usize], bounds: Bounds, room: Size) -> Option<Cutoffs> {
        let mut best: Option<Cutoffs> = None;
        for window in starts.iter().copied().filter(|start| (bounds.least.window..=bounds.most.window).contains(start))
        {
            let least = bounds.least.rounds.max(window);
            let pairs = (least..=bounds.most.rounds.max(least)).map(|rounds| Cutoffs { window, rounds });
            let first = pairs.into_iter().find(|at| accepts(room, sizes.kept(*at)));
            if let Some(at) =
                first.filter(|at| best.is_none_or(|best| sizes.kept(*at).tokens > sizes.kept(best).tokens))
            {
                best = Some(at);
            }
        }
        best
    }

    proptest! {
        #[test]
        fn the_best_cutoffs_are_those_of_all_pairs(
            log in prop::collection::vec((0_usize..9, prop::option::of((1_usize..20, 1_usize..4, any::<bool>()))), 1..12),
            starts in prop::collection::btree_set(0_usize..12, 1..12),
            (least, least_rounds, most) in (0_usize..6, 0_usize..6, 0_usize..14),
            (tokens, messages) in (0_u64..90, 0_usize..16),
        ) {
            let (sizes, len) = (sizes(&log), log.len());
            let starts: Vec<usize> = starts.into_iter().filter(|start| *start <= len).collect();
            let bounds = Bounds {
                least: Cutoffs { window: least.min(len), rounds: least_rounds.min(len) },
                most: Cutoffs { window: most.min(len), rounds: len + 1 },
            };
            let room = Size { tokens, messages };
            let found = sizes.best(starts.iter().copied(), bounds, |size| accepts(room, size));
            prop_assert_eq!(found, best_of_all(&sizes, &starts, bounds, room));
        }
    }

    #[test]
    fn of_starts_that_keep_the_same_the_earliest_is_used() {
        let sizes = Sizes::of(&[item(1, 2, None, false)], Seq::FIRST, 4, |_| 1);
        let at = |at| Cutoffs { window: at, rounds: at };
        let bounds = Bounds { least: at(0), most: at(4) };
        assert_eq!(sizes.best([0, 1, 2, 3, 4], bounds, |_| true), Some(at(0)), "1 and 2 keep as much");
        assert_eq!(sizes.best([1, 2, 3, 4], bounds, |_| true), Some(at(1)));
    }
}

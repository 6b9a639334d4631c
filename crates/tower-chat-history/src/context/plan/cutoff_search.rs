//! The search for the cutoffs of a window that has to be compacted, among the sizes of the window at every pair of
//! cutoffs.

use std::ops::Add;

use tower_chat_history_core::{Message, Seq};

use super::{
    call_budget::{FitBudget, share},
    item::Item,
    window_index::{Cutoffs, Size, WindowIndex, index},
};
use crate::context::budget::{CallLimits, DoesNotFit, PromptTokens, TrimReason, Watermark};

/// The percentage of the limit to which a compaction goes down if the low watermark counts messages or turns.
const DEFAULT_LOW_PERCENT: u8 = 75;

/// A window, and the budget that it has to fit.
pub(super) struct CutoffSearch<'a> {
    pub(super) sizes: Sizes,
    pub(super) log: &'a WindowIndex<'a>,
    pub(super) budget: &'a FitBudget<'a>,
}

impl<'a> CutoffSearch<'a> {
    pub(super) fn of(items: &[Item], log: &'a WindowIndex<'a>, budget: &'a FitBudget<'a>) -> Self {
        Self { sizes: Sizes::of(items, log.first, log.len, budget.cost), log, budget }
    }

    /// Measures the items again, after something was left out of them.
    pub(super) fn measure(&mut self, items: &[Item]) {
        self.sizes = Sizes::of(items, self.log.first, self.log.len, self.budget.cost);
    }

    /// Returns the size of the prompt at these cutoffs.
    pub(super) fn total(&self, at: Cutoffs) -> u64 {
        self.budget.call.total(self.sizes.kept(at))
    }

    /// Returns `true` if a compaction is due.
    pub(super) fn is_due(&self) -> bool {
        let base = self.log.base;
        self.budget.is_due(self.sizes.kept(base), || self.log.turns(base.window))
    }

    /// Returns the reason of a compaction that is due.
    pub(super) fn reason(&self) -> TrimReason {
        match self.budget.watermarks.high {
            Watermark::Messages(_) if self.has_too_many(self.log.base) => TrimReason::Messages,
            Watermark::Turns(_) if self.has_too_many(self.log.base) => TrimReason::Turns,
            Watermark::Percent(_) | Watermark::Messages(_) | Watermark::Turns(_) => TrimReason::Tokens,
        }
    }

    /// Returns `true` if there are more messages or turns than the high watermark allows.
    pub(super) fn has_too_many(&self, at: Cutoffs) -> bool {
        self.budget.has_too_many(self.sizes.kept(at), || self.log.turns(at.window))
    }

    /// Returns `true` if the window itself is too large, so that the next calls need a smaller one too. If only this
    /// call's input is large, messages are left out for this call only.
    pub(super) fn is_lasting(&self) -> bool {
        let base = self.log.base;
        let window = self.budget.call.sizes.fixed().saturating_add(self.sizes.kept(base).tokens);
        self.budget.stores && (self.has_too_many(base) || window > self.target_prompt())
    }

    /// Returns the size to which the reply has to shrink, if shrinking it is necessary, allowed and sufficient.
    pub(super) fn shrunk_reply(&self, at: Cutoffs) -> Option<u64> {
        let limits = self.budget.call.limits;
        let total = self.total(at);
        let fits = total <= limits.max_prompt(limits.least_reply?);
        (fits && total > self.budget.call.limit()).then(|| limits.max_reply(total))
    }

    /// Returns the number of tokens that clearing has to free so that nothing else has to be left out.
    pub(super) fn tokens_to_clear(&self, lasting: bool) -> u64 {
        let kept = self.sizes.kept(self.log.base).tokens;
        let for_this_call = kept.saturating_sub(self.budget.call.room(self.budget.call.limit()).unwrap_or_default());
        if lasting { for_this_call.max(kept.saturating_sub(self.target())) } else { for_this_call }
    }

    /// Returns the size to which a compaction brings the prompt. It is at least the size of the fixed parts and half of
    /// the remaining limit.
    fn target_prompt(&self) -> u64 {
        let limit = self.budget.call.limit();
        let fixed = self.budget.call.sizes.fixed();
        let percent = match self.budget.watermarks.low {
            Watermark::Percent(percent) => percent,
            Watermark::Messages(_) | Watermark::Turns(_) => DEFAULT_LOW_PERCENT,
        };
        share(limit, percent).max(fixed.midpoint(limit)).min(limit)
    }

    /// Returns the size to which a compaction brings the window. An input that is larger than the difference between
    /// limit and target is ignored, because it is not typical of the next calls.
    fn target(&self) -> u64 {
        let target = self.target_prompt();
        let input = self.budget.call.sizes.input;
        let typical = if input <= self.budget.call.limit() - target { input } else { 0 };
        target.saturating_sub(self.budget.call.sizes.fixed()).saturating_sub(typical)
    }

    /// Returns the cutoffs that are stored, and the cutoffs of the prompt. The prompt fits, unless no prompt does:
    /// then it is the smallest one.
    pub(super) fn positions(&self, lasting: bool) -> (Cutoffs, Cutoffs) {
        let stored = if lasting { self.stored() } else { self.log.base };
        if self.total(stored) <= self.budget.call.limit() && !self.has_too_many(stored) {
            return (stored, stored);
        }
        (stored, self.sent(stored).unwrap_or(self.log.most))
    }

    /// Returns the cutoffs with which the next calls begin.
    fn stored(&self) -> Cutoffs {
        let base = self.log.base;
        let most = self.log.most;
        let to = self.budget.watermarks.low;
        let target = self.target();

        if self.log.continues {
            // Within a turn, only the cutoff of rounds is stored.
            let rounds = Bounds { least: base, most: Cutoffs { window: base.window, ..most } };
            let found = self.best(rounds, target, to).or_else(|| self.best(Bounds { least: base, most }, target, to));
            return found.map_or(base, |at| Cutoffs { window: base.window, ..at });
        }

        let last = Cutoffs { window: self.log.last_start(), rounds: self.log.len };
        let bounds = Bounds { least: base, most: last };
        if let Some(found) = self.best(bounds, target, to) {
            return found;
        }

        // The last turn may be larger than the target, and still fit.
        let room = self.budget.call.room(self.budget.call.limit());
        room.and_then(|room| self.best(bounds, room, Watermark::Percent(100))).unwrap_or(last)
    }

    /// Returns the cutoffs for this call, if the stored ones are not sufficient.
    fn sent(&self, stored: Cutoffs) -> Option<Cutoffs> {
        let bounds = Bounds { least: stored, most: self.log.most };

        // The rooms to try, in order.
        let mut rooms = Vec::with_capacity(3);
        let within = self.budget.call.room(self.budget.call.limit());
        if self.budget.stores && self.log.continues {
            // Within a turn, the next call resembles this one. Going down further than needed keeps its beginning the
            // same.
            rooms.extend(within.map(|room| room.min(self.target())));
        }
        rooms.extend(within);
        if let Some(reply) = self.budget.call.limits.least_reply {
            rooms.extend(self.budget.call.room(self.budget.call.limits.max_prompt(reply)));
        }

        // The required messages may exceed a watermark that counts messages or turns, but not the room.
        for mark in [self.budget.watermarks.high, Watermark::Percent(100)] {
            for room in &rooms {
                if let Some(found) = self.best(bounds, *room, mark) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Returns the best cutoffs for a window of at most `room` tokens and, if the watermark counts messages or
    /// turns, of at most that many messages or turns.
    fn best(&self, bounds: Bounds, room: u64, mark: Watermark) -> Option<Cutoffs> {
        let starts = self.log.starts().iter().copied();
        match mark {
            Watermark::Percent(_) => self.sizes.best(starts, bounds, |size| size.tokens <= room),
            Watermark::Messages(most) => {
                self.sizes.best(starts, bounds, |size| size.tokens <= room && size.messages <= most)
            }
            Watermark::Turns(most) => {
                let starts = starts.filter(|start| self.log.turns(*start) <= most);
                self.sizes.best(starts, bounds, |size| size.tokens <= room)
            }
        }
    }

    /// Returns the error for a call for which no prompt fits.
    pub(super) fn does_not_fit(&self) -> DoesNotFit {
        self.does_not_fit_at(self.log.most)
    }

    /// Returns the error for a call whose prompt at these cutoffs does not fit and cannot be smaller.
    pub(super) fn does_not_fit_at(&self, at: Cutoffs) -> DoesNotFit {
        let CallLimits { context, prompt, reserve, least_reply, .. } = self.budget.call.limits;
        let reply_reserve = least_reply.unwrap_or(reserve);
        DoesNotFit {
            parts: PromptTokens { window: self.sizes.kept(at).tokens, ..self.budget.call.sizes },
            context_window: context.min(prompt.saturating_add(reply_reserve)),
            reply_reserve,
            turn_is_bound: false,
        }
    }
}

/// The sizes of a window's messages. The value at each index is the sum for this exchange and all later ones.
#[derive(Debug)]
pub(super) struct Sizes {
    /// The messages that belong to no round.
    plain: Vec<Size>,
    /// The messages of rounds, at the exchange with the round's calls.
    asked: Vec<OfRounds>,
    /// The messages of rounds, at the exchange that follows the round.
    followed: Vec<OfRounds>,
}

/// The sizes of the messages of some rounds.
#[derive(Clone, Copy, Debug, Default)]
struct OfRounds {
    whole: Size,
    /// The parts that stay if their rounds are left out. They can have more tokens: a constant reply takes the place of
    /// a short result.
    rest: Size,
}

impl Add for OfRounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { whole: self.whole + other.whole, rest: self.rest + other.rest }
    }
}

impl Sizes {
    /// Computes the sizes of the items of `exchanges` exchanges, the first of which is at `first`.
    pub(super) fn of(items: &[Item], first: Seq, exchanges: usize, cost: impl Fn(&Message) -> u64) -> Self {
        // There are two more indexes: that of the next exchange, which may follow a round, and the one after it, as the
        // cutoff that leaves out such a round.
        let mut plain = vec![Size::default(); exchanges + 2];
        let mut asked = vec![OfRounds::default(); exchanges + 2];
        let mut followed = asked.clone();

        for Item { message, seq, round, rest, rests_as_bridge, .. } in items {
            let size = Size { tokens: cost(message), messages: 1 };
            // The rest of a message stays if the round is left out.
            let rest = rest.as_ref().map_or(Size::default(), |rest| Size { tokens: cost(rest), messages: 1 });
            let at = index(*seq, first).min(exchanges);

            let Some(round) = round else {
                plain[at] = plain[at] + size;
                continue;
            };
            let asked_at = index(round.asked, first).min(exchanges);
            let followed_at = index(round.followed, first).min(exchanges);
            let of_round = OfRounds { whole: size, rest };
            let rest_at = if *rests_as_bridge { asked_at } else { at };
            plain[rest_at] = plain[rest_at] + rest;
            asked[asked_at] = asked[asked_at] + of_round;
            followed[followed_at] = followed[followed_at] + of_round;
        }

        for at in (0..=exchanges).rev() {
            plain[at] = plain[at] + plain[at + 1];
            asked[at] = asked[at] + asked[at + 1];
            followed[at] = followed[at] + followed[at + 1];
        }
        Self { plain, asked, followed }
    }

    /// Returns the size of the messages that are kept at these cutoffs.
    pub(super) fn kept(&self, at: Cutoffs) -> Size {
        // Rounds do not overlap, so one of the cutoffs keeps all rounds that the other keeps. The rounds that both keep
        // are the smaller of the two sets.
        let asked = self.asked[at.window];
        let followed = self.followed[at.rounds];
        let kept = if asked.whole.messages < followed.whole.messages { asked } else { followed };
        (self.plain[at.window] + kept.whole).less(kept.rest)
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
        let mut items = Vec::new();
        let mut free_from = 0;
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
            let sizes = sizes(&log);
            let len = log.len();
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

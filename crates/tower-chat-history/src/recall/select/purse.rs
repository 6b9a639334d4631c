//! The allowance while units are taken.

use std::collections::BTreeSet;

use tower_chat_history_core::{Recorded, Seq};

use super::messages::Place;

/// The messages that are selected so far, and the tokens that are left.
#[derive(Debug)]
pub(super) struct Purse<'a, C> {
    pub(super) exchanges: &'a [Recorded],
    /// The messages that are shown already.
    pub(super) shown: BTreeSet<Place>,
    pub(super) selected: BTreeSet<Place>,
    pub(super) left: u64,
    pub(super) exchange_cost: u64,
    pub(super) cost: C,
}

impl<C: FnMut(&Recorded, u32) -> u64> Purse<'_, C> {
    /// Selects the messages of a unit that are new, if they fit, and returns them. Returns `None` if they
    /// do not fit.
    pub(super) fn take(&mut self, mut unit: Vec<Place>) -> Option<Vec<Place>> {
        unit.retain(|place| !self.shown.contains(place) && !self.selected.contains(place));
        self.left = self.left.checked_sub(self.cost_of(&unit)?)?;
        self.selected.extend(unit.iter().copied());
        Some(unit)
    }

    /// Returns the cost of messages, in the order of the log, or `None` if one is not there.
    fn cost_of(&mut self, messages: &[Place]) -> Option<u64> {
        let (mut sum, mut last) = (0_u64, None);
        for &(seq, message) in messages {
            let at = self.exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok()?;
            sum = sum.saturating_add((self.cost)(&self.exchanges[at], message));
            if last != Some(seq) && !self.has_exchange(seq) {
                sum = sum.saturating_add(self.exchange_cost);
            }
            last = Some(seq);
        }
        Some(sum)
    }

    fn has_exchange(&self, seq: Seq) -> bool {
        self.selected.range((seq, 0)..=(seq, u32::MAX)).next().is_some()
    }
}

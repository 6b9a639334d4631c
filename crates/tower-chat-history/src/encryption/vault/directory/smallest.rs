//! The smallest names among many.

use std::collections::BTreeSet;

use super::super::EntryId;

/// The smallest names of those that were added, up to a limit. The others are forgotten at once, so the memory does not
/// grow with the number of names.
pub(super) struct Smallest {
    limit: usize,
    names: BTreeSet<EntryId>,
}

impl Smallest {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, names: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, name: EntryId) {
        let is_full = self.names.len() == self.limit;
        if is_full && self.names.last().is_none_or(|last| name >= *last) {
            return;
        }
        if self.names.insert(name) && is_full {
            self.names.pop_last();
        }
    }

    pub(super) fn into_sorted(self) -> Vec<EntryId> {
        self.names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_names_are_kept_in_any_order_and_no_more_of_them() {
        // All bytes, in an order that neither rises nor falls. Each is added twice.
        let names: Vec<_> = (0..=u8::MAX).map(|step| EntryId::from_bytes([step.wrapping_mul(101); 32])).collect();
        for limit in [0, 1, 10, 256, 300] {
            let mut smallest = Smallest::new(limit);
            for name in &names {
                smallest.add(*name);
                smallest.add(*name);
                assert!(smallest.names.len() <= limit);
            }
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.truncate(limit);
            assert_eq!(smallest.into_sorted(), sorted);
        }
    }
}

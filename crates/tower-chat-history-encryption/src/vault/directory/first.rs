//! The first names among many.

use std::collections::BTreeSet;

use super::super::EntryId;

/// The first names of those that were added, up to a limit. The others are forgotten at once, so the memory does not
/// grow with the number of names.
pub(super) struct First {
    limit: usize,
    names: BTreeSet<EntryId>,
}

impl First {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, names: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, name: EntryId) {
        self.names.insert(name);
        if self.names.len() > self.limit {
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
    fn the_first_names_are_kept_in_any_order_and_no_more_of_them() {
        // All bytes, in an order that neither rises nor falls.
        let names: Vec<_> = (0..=u8::MAX).map(|step| EntryId::from_bytes([step.wrapping_mul(101); 32])).collect();
        for limit in [0, 1, 10, 256, 300] {
            let mut first = First::new(limit);
            for name in &names {
                first.add(*name);
                assert!(first.names.len() <= limit);
            }
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.truncate(limit);
            assert_eq!(first.into_sorted(), sorted);
        }
    }
}

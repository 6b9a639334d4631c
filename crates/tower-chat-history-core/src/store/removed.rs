//! The numbers of stored things, for receipts of erasures.

use std::{collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};

/// The numbers of things that an erasure removed, or that are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Removed {
    /// The conversations.
    pub conversations: u64,
    /// The exchanges.
    pub exchanges: u64,
    /// The size of the exchanges, in bytes of message JSON.
    pub bytes: u64,
    /// The exchange ids in the index that makes appends idempotent.
    pub exchange_ids: u64,
    /// The compactions, with and without derived text.
    pub compactions: u64,
    /// The compactions that have [derived text](crate::Compaction::derived), such as a summary.
    pub summaries: u64,
    /// The conversations with labels.
    pub labels: u64,
    /// The ids of conversations that do not exist any more, or were never created, in an index that the store keeps
    /// apart from the conversations. An erasure also removes the ids of conversations that another call has just
    /// removed, and does not count them.
    pub names: u64,
}

impl Removed {
    /// Returns `true` if all numbers are 0.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        self.conversations = self.conversations.saturating_add(other.conversations);
        self.exchanges = self.exchanges.saturating_add(other.exchanges);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.exchange_ids = self.exchange_ids.saturating_add(other.exchange_ids);
        self.compactions = self.compactions.saturating_add(other.compactions);
        self.summaries = self.summaries.saturating_add(other.summaries);
        self.labels = self.labels.saturating_add(other.labels);
        self.names = self.names.saturating_add(other.names);
    }
}

/// The numbers for each store by its name. A single store has the name that [`system`](crate::HistoryStore::system)
/// returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByStore(BTreeMap<String, Removed>);

impl ByStore {
    /// Creates the numbers of one store.
    #[must_use]
    pub fn of(store: impl Into<String>, removed: Removed) -> Self {
        Self(BTreeMap::from([(store.into(), removed)]))
    }

    /// Returns the names and numbers, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Removed)> {
        self.0.iter().map(|(store, removed)| (store.as_str(), removed))
    }

    /// Returns the sums over all stores.
    #[must_use]
    pub fn total(&self) -> Removed {
        let mut total = Removed::default();
        self.0.values().for_each(|removed| total += *removed);
        total
    }
}

impl AddAssign for ByStore {
    fn add_assign(&mut self, other: Self) {
        for (store, removed) in other.0 {
            *self.0.entry(store).or_default() += removed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_of_one_name_are_added() {
        let one = || ByStore::of("sqlite", Removed { conversations: 1, ..Removed::default() });
        let mut both = one();
        both += one();
        both += ByStore::of("redis", Removed::default());
        assert_eq!(both.total().conversations, 2);
        assert_eq!(serde_json::to_value(&both).unwrap()["sqlite"]["conversations"], 2);
    }
}

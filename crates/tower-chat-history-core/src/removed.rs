//! The numbers of stored things, for receipts of erasures.

use std::{collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::attachment::AttachmentName;

/// The largest number of kinds of attachments that are counted one by one.
const MAX_KINDS: usize = 64;

/// The kind under which further kinds of attachments are counted.
const OTHER: &str = "other";

/// The numbers of things that an erasure removed, or that are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The compactions, with and without a summary.
    pub compactions: u64,
    /// The compactions that have a summary, or cannot be read.
    pub summaries: u64,
    /// The conversations with labels.
    pub labels: u64,
    /// The ids of conversations that do not exist any more, or were never created, in an index that the store keeps
    /// apart from the conversations. An erasure also removes the ids of conversations that another call has just
    /// removed, and does not count them.
    pub names: u64,
    /// The [attachments](crate::Attach) by kind: the beginning of their name, up to the first `/`. The index of recall
    /// has the kinds `terms` and `vectors`. Of more than 64 kinds, the others are counted as `other`.
    pub attachments: BTreeMap<String, u64>,
}

impl Removed {
    /// Counts this number of attachments of one name.
    pub fn add_attachments(&mut self, name: &AttachmentName, number: u64) {
        let name = name.as_str();
        self.add_kind(name.split_once('/').map_or(name, |(kind, _)| kind), number);
    }

    fn add_kind(&mut self, kind: &str, number: u64) {
        let is_known = self.attachments.contains_key(kind) || self.attachments.len() < MAX_KINDS;
        let counted = self.attachments.entry(if is_known { kind } else { OTHER }.to_owned()).or_default();
        *counted = counted.saturating_add(number);
    }

    /// Returns `true` if all numbers are 0.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let Self { conversations, exchanges, bytes, exchange_ids, compactions, summaries, labels, names, attachments } =
            self;
        let numbers = [conversations, exchanges, bytes, exchange_ids, compactions, summaries, labels, names];
        numbers.into_iter().chain(attachments.values()).all(|number| *number == 0)
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        let add = |number: &mut u64, more: u64| *number = number.saturating_add(more);
        add(&mut self.conversations, other.conversations);
        add(&mut self.exchanges, other.exchanges);
        add(&mut self.bytes, other.bytes);
        add(&mut self.exchange_ids, other.exchange_ids);
        add(&mut self.compactions, other.compactions);
        add(&mut self.summaries, other.summaries);
        add(&mut self.labels, other.labels);
        add(&mut self.names, other.names);
        for (kind, number) in other.attachments {
            self.add_kind(&kind, number);
        }
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
        self.0.values().for_each(|removed| total += removed.clone());
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

    fn name(text: impl AsRef<str>) -> AttachmentName {
        AttachmentName::new(text).unwrap()
    }

    #[test]
    fn attachments_are_counted_by_the_beginning_of_their_name() {
        let mut removed = Removed::default();
        removed.add_attachments(&name("terms/1f/all"), 2);
        removed.add_attachments(&name("terms/1f/0"), 1);
        removed.add_attachments(&name("vectors"), 5);
        assert_eq!(removed.attachments, BTreeMap::from([("terms".into(), 3), ("vectors".into(), 5)]));
        assert!(!removed.is_nothing() && Removed::default().is_nothing());
    }

    #[test]
    fn the_number_of_kinds_is_bounded() {
        let mut removed = Removed::default();
        (0..1000).for_each(|number| removed.add_attachments(&name(format!("kind-{number}")), 1));
        assert_eq!(removed.attachments.len(), MAX_KINDS + 1);
        assert_eq!(removed.attachments[OTHER], 1000 - MAX_KINDS as u64);
    }

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

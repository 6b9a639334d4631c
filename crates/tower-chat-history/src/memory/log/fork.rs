//! Copies of a log.

use std::{collections::HashMap, sync::Arc};

use tower_chat_history_core::{CompactionVersion, ForkTo, Forked, Incarnation, LabelsVersion, StoreError};

use super::{
    Entry, Log,
    removal::cites_removed,
    size::{compaction_bytes, conversation_bytes, entry_bytes, labels_bytes},
};
use crate::memory::space::Space;

impl Log {
    /// Returns a log with the exchanges before the position, or `None` if there is none. It shares them with this log.
    /// Returns an error if this log has another incarnation, or if there is no space.
    pub(in crate::memory) fn fork(
        &self,
        incarnation: Incarnation,
        to: &ForkTo,
        space: &Space,
    ) -> Result<Option<Self>, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let len = self.index(to.before).min(self.entries.len());
        let entries: Vec<Entry> = self.entries[..len].iter().map(|entry| self.copied(entry)).collect();
        if entries.is_empty() {
            return Ok(None);
        }

        let mut copy = Self {
            incarnation: to.incarnation,
            first: self.first,
            ids: HashMap::with_capacity(len),
            compactions: HashMap::new(),
            labels: to.labels.clone(),
            labels_version: LabelsVersion::NONE,
            created_at: to.at,
            updated_at: to.at,
            message_bytes: entries.iter().map(|entry| entry.bytes).sum(),
            bytes: 0,
            entries,
        };
        for (at, entry) in copy.entries.iter().enumerate() {
            copy.ids.insert(entry.exchange.id.clone(), self.seq(at));
        }
        if !copy.labels.is_empty() {
            copy.labels_version = LabelsVersion::NONE.next();
        }
        if let Some(compact) = &to.compact {
            copy.compactions.insert(compact.profile.clone(), compact.stored_as(CompactionVersion::NONE.next()));
        }

        let entries: usize = copy.entries.iter().map(|entry| entry.memory).sum();
        let compactions: usize =
            copy.compactions.iter().map(|(profile, stored)| compaction_bytes(profile, stored)).sum();
        copy.take(conversation_bytes(&to.id) + entries + compactions + labels_bytes(&copy.labels), 0, space)?;
        Ok(Some(copy))
    }

    /// Returns the result of a fork into this log, which exists already: it may be the copy of an earlier attempt.
    pub(in crate::memory) fn result_of_repeat(&self, incarnation: Incarnation) -> Result<Forked, StoreError> {
        let current = Some(self.revision());
        if self.incarnation == incarnation { Ok(Forked::new(current)) } else { Err(StoreError::Conflict { current }) }
    }

    /// Returns the entry without recalled messages that are not copied. A copy is shared if nothing is left out.
    fn copied(&self, entry: &Entry) -> Entry {
        if !cites_removed(&entry.exchange, self.seq(0)) {
            return Entry { exchange: Arc::clone(&entry.exchange), ..*entry };
        }
        let mut exchange = (*entry.exchange).clone();
        exchange.recalled = None;
        let memory = entry_bytes(&exchange);
        Entry { exchange: Arc::new(exchange), memory, ..*entry }
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Citation, Compact, Labels, Profile, Recalled, Seq};

    use super::super::tests::{UNLIMITED, append, begin};
    use super::*;

    fn to(before: u64) -> ForkTo {
        ForkTo::new("copy".parse().unwrap(), Seq::new(before))
    }

    #[test]
    fn a_copy_shares_the_exchanges_and_counts_them() {
        let (mut log, first) = begin(append("a"));
        log.append(append("b"), &UNLIMITED).unwrap();
        let space = Space::new(usize::MAX);
        let incarnation = first.revision.incarnation();
        let copy = log.fork(incarnation, &to(2), &space).unwrap().unwrap();
        for (entry, copied) in log.entries.iter().zip(&copy.entries) {
            assert!(Arc::ptr_eq(&entry.exchange, &copied.exchange));
        }
        let longer_id = "copy".len() - "a".len();
        assert_eq!((copy.bytes, space.used()), (log.bytes + longer_id, copy.bytes));
        assert_eq!((copy.message_bytes, copy.ids.len()), (log.message_bytes, 2));
    }

    #[test]
    fn a_copy_counts_its_compaction_and_labels() {
        let (log, first) = begin(append("a"));
        let incarnation = first.revision.incarnation();
        let space = Space::new(usize::MAX);
        let bare = log.fork(incarnation, &to(1), &space).unwrap().unwrap();
        let state = Arc::from([0; 9]);
        let compact =
            Compact::new(Profile::default(), CompactionVersion::new(7), Seq::FIRST, state, Some(Arc::from([0; 100])));
        let labels = Labels::new([("title", "x".repeat(1000))]).unwrap();
        let to = to(1).labels(labels).compact(Some(compact));
        let copy = log.fork(incarnation, &to, &space).unwrap().unwrap();
        assert!(copy.bytes > bare.bytes + 1100, "{} and {}", copy.bytes, bare.bytes);
        assert_eq!(space.used(), bare.bytes + copy.bytes);
        assert_eq!(copy.compactions[&Profile::default()].version, CompactionVersion::new(1));
        assert_eq!(copy.labels_version, LabelsVersion::new(1));
    }

    #[test]
    fn recalled_messages_that_are_not_copied_do_not_count() {
        let citation = Citation::new(Seq::FIRST, 0..1).of("other".parse().unwrap());
        let mut citing = append("a");
        Arc::make_mut(&mut citing.exchange).recalled = Some(Recalled::new("x".repeat(1000), vec![citation]));
        let (log, first) = begin(citing);
        let copy = log.fork(first.revision.incarnation(), &to(1), &UNLIMITED).unwrap().unwrap();
        assert!(log.bytes > copy.bytes + 1000, "{} and {}", log.bytes, copy.bytes);
        assert!(copy.entries[0].exchange.recalled.is_none() && log.entries[0].exchange.recalled.is_some());
    }

    #[test]
    fn a_refused_copy_takes_no_space() {
        let (log, first) = begin(append("a"));
        let space = Space::new(log.bytes);
        let refused = log.fork(first.revision.incarnation(), &to(1), &space).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
        assert!(matches!(log.fork(Incarnation::random(), &to(1), &space), Err(StoreError::Gone)));
        assert!(log.fork(first.revision.incarnation(), &to(0), &space).unwrap().is_none());
        assert_eq!(space.used(), 0);
    }
}

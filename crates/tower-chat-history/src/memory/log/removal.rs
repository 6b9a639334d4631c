//! Removing exchanges from the end or the beginning of a log.

use std::sync::Arc;

use tower_chat_history_core::{
    Compact, Derived, Exchange, Expect, Incarnation, PruneTo, Pruned, Recalled, Revision, Seq, StoreError, Truncated,
    backend::{PruneScan, Scan},
};

use super::{Entry, Log, compaction_bytes, entry_bytes};
use crate::memory::space::Space;

/// The exchanges that a truncation or a prune removed from a log.
#[derive(Debug, Default)]
pub(in crate::memory) struct Removed {
    entries: Vec<Entry>,
    /// The memory of the exchanges and of the erased text, in bytes.
    bytes: usize,
}

impl Log {
    /// Removes the exchanges from a position on. The log then has a new incarnation, because a revision contains the
    /// number of exchanges, which must not decrease within an incarnation. If the result has no revision, the log is
    /// empty, and the caller must remove it. All compactions are removed, except the one that `compaction` replaces.
    ///
    /// The removed exchanges are returned, so that the caller can drop them after it releases the lock: dropping many
    /// exchanges takes time.
    pub(in crate::memory) fn truncate(
        &mut self,
        expect: Revision,
        from: Seq,
        compaction: Option<Compact>,
        space: &Space,
    ) -> Result<(Truncated, Removed), StoreError> {
        Expect::Exactly(expect).check(Some(self.revision()))?;
        let keep = self.index(from);
        if keep >= self.entries.len() {
            return Ok((Truncated::new(Some(self.revision()), 0), Removed::default()));
        }
        self.keep_compaction(compaction, space)?;
        let tail = self.entries.split_off(keep);
        let tail = self.removed(tail);
        self.incarnation = Incarnation::random();
        let revision = (keep > 0).then(|| self.revision());
        Ok((Truncated::new(revision, tail.len()), tail))
    }

    /// Removes the exchanges before those that `keep` selects. As in [`truncate`](Self::truncate), the caller drops
    /// the removed exchanges.
    pub(in crate::memory) fn prune(
        &mut self,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<(Pruned, Removed), StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let mut scan = PruneScan::new(keep, self.next());
        for at in (0..self.index(scan.end()).min(self.entries.len())).rev() {
            let exchange = &self.entries[at].exchange;
            if scan.offer(self.seq(at), exchange.opens_turn(), exchange.message_count()) == Scan::Stop {
                break;
            }
        }
        let start = scan.start().map_or(0, |start| self.index(start));
        let remaining = self.entries.split_off(start);
        let head = std::mem::replace(&mut self.entries, remaining);
        let mut head = self.removed(head);
        self.first += start as u64;
        let first = self.seq(0);
        let cites_removed = |entry: &Entry| cites_removed(&entry.exchange, first);
        if derived == Derived::Erase && (self.first > 0 || self.entries.iter().any(cites_removed)) {
            self.incarnation = Incarnation::random();
            head.bytes += self.erase_compactions(first);
            head.bytes += self.forget_derived(first);
        }
        Ok((Pruned::new(self.revision(), head.len()), head))
    }

    /// Updates the index and the sizes after these entries were removed.
    fn removed(&mut self, entries: Vec<Entry>) -> Removed {
        let bytes = entries.iter().map(|entry| entry.memory).sum();
        for entry in &entries {
            self.ids.remove(&entry.exchange.id);
        }
        // Free slots are not counted, so tables that have become mostly empty are made smaller.
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to_fit();
        }
        if self.ids.len() < self.ids.capacity() / 4 {
            self.ids.shrink_to_fit();
        }
        self.message_bytes -= entries.iter().map(|entry| entry.bytes).sum::<usize>();
        self.bytes -= bytes;
        Removed { entries, bytes }
    }

    /// Removes the recalled messages that cite an exchange before `first` or another conversation, and all provenances.
    /// Returns the number of freed bytes.
    fn forget_derived(&mut self, first: Seq) -> usize {
        let mut freed = 0;
        for entry in &mut self.entries {
            let cites_removed = cites_removed(&entry.exchange, first);
            if cites_removed || entry.exchange.provenance.is_some() {
                // A caller may still have the exchange, so it is copied.
                let mut exchange = (*entry.exchange).clone();
                exchange.recalled = exchange.recalled.filter(|_| !cites_removed);
                exchange.provenance = None;
                let memory = entry_bytes(&exchange);
                freed += entry.memory.saturating_sub(memory);
                (entry.exchange, entry.memory) = (Arc::new(exchange), memory.min(entry.memory));
            }
        }
        self.bytes -= freed;
        freed
    }

    /// Removes the text that compactions derived from messages. Returns the number of freed bytes.
    fn erase_compactions(&mut self, first: Seq) -> usize {
        let mut freed = 0;
        for compaction in self.compactions.values_mut() {
            let erased = compaction.without_derived(first);
            freed += compaction.memory().saturating_sub(erased.memory());
            *compaction = erased;
        }
        self.bytes -= freed;
        freed
    }

    /// Replaces all compactions by this one. It is dropped as well if it does not replace the stored one.
    fn keep_compaction(&mut self, keep: Option<Compact>, space: &Space) -> Result<(), StoreError> {
        let before = self.compactions.iter().map(|(profile, stored)| compaction_bytes(profile, stored)).sum();
        let kept = keep.filter(|keep| self.replaces_stored(keep)).map(|keep| {
            let stored = keep.stored_as(keep.replaces.next());
            (keep.profile, stored)
        });
        let after = kept.as_ref().map_or(0, |(profile, kept)| compaction_bytes(profile, kept));
        self.take(after, before, space)?;
        self.compactions = kept.into_iter().collect();
        Ok(())
    }
}

/// Returns `true` if the recalled messages of an exchange survive neither an erasure from a log that begins at `first`,
/// nor a fork.
pub(super) fn cites_removed(exchange: &Exchange, first: Seq) -> bool {
    let cited = exchange.recalled.as_ref().and_then(Recalled::least_cited);
    cited.is_some_and(|cited| u64::try_from(cited).is_ok_and(|cited| cited < first.get()) || cited < 0)
}

impl Removed {
    /// Returns the freed memory, in bytes.
    pub(in crate::memory) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{CompactionVersion, Origin, Positions, Profile, PromptDigests, Provenance};

    use super::super::tests::{UNLIMITED, append, begin};
    use super::*;

    #[test]
    fn a_truncated_log_counts_only_its_remaining_exchanges() {
        let (mut log, first) = begin(append("a"));
        let empty = log.bytes - log.entries[0].memory;
        let mut last = first.revision;
        for id in ["b", "c"] {
            last = log.append(append(id), &UNLIMITED).unwrap().revision;
        }
        let (truncated, tail) = log.truncate(last, Seq::new(1), None, &UNLIMITED).unwrap();
        assert_eq!((truncated.removed, truncated.revision), (2, Some(log.revision())));
        let one = log.entries[0].memory;
        assert_eq!((tail.bytes(), log.bytes), (2 * one, empty + one));
        assert_eq!(log.ids.len(), 1);
        let grown = log.append(append("b"), &UNLIMITED).unwrap();
        assert_eq!((grown.seq, grown.duplicate), (Seq::new(1), false));
        let (truncated, tail) = log.truncate(grown.revision, Seq::FIRST, None, &UNLIMITED).unwrap();
        assert_eq!((truncated, tail.entries.len(), log.bytes), (Truncated::new(None, 2), 2, empty));
    }

    #[test]
    fn a_truncation_frees_the_memory_of_compactions_but_of_the_kept_one() {
        let (mut log, first) = begin(append("a"));
        let incarnation = first.revision.incarnation();
        let (none, state) = (CompactionVersion::NONE, Arc::<[u8]>::from([0; 9]));
        let compact = |name: &str, replaces, derived: usize| {
            let (profile, derived) = (Profile::new(name).unwrap(), Arc::from(vec![0; derived]));
            Compact::new(profile, replaces, Seq::FIRST, Arc::clone(&state), Some(derived))
        };
        let last = log.append(append("b"), &UNLIMITED).unwrap();
        let bare = log.bytes - log.entries[1].memory;
        log.compact(incarnation, compact("one", none, 100), &UNLIMITED).unwrap();
        let with_one = log.bytes - log.entries[1].memory;
        log.compact(incarnation, compact("two", none, 200), &UNLIMITED).unwrap();

        let keep = compact("one", none.next(), 90);
        let (_, tail) = log.truncate(last.revision, Seq::new(1), Some(keep), &UNLIMITED).unwrap();
        assert_eq!((log.bytes, tail.bytes()), (with_one - 10, log.entries[0].memory));
        assert_eq!(log.compactions.values().map(|kept| kept.version).collect::<Vec<_>>(), [none.next().next()]);

        // Another version than the stored one is not kept.
        let last = log.append(append("b"), &UNLIMITED).unwrap();
        log.truncate(last.revision, Seq::new(1), Some(compact("one", none.next(), 90)), &UNLIMITED).unwrap();
        assert_eq!((log.bytes, log.compactions.len()), (bare, 0));
    }

    #[test]
    fn an_erasure_frees_the_memory_of_derived_text() {
        let (mut log, first) = begin(append("a"));
        let last = log.append(append("b"), &UNLIMITED).unwrap();
        let (of_first, incarnation) = (log.entries[0].memory, first.revision.incarnation());
        let compact = |derived| {
            let state = Arc::from([0; 9]);
            Compact::new(Profile::default(), CompactionVersion::NONE, Seq::FIRST, state, derived)
        };
        log.compact(incarnation, compact(Some(Arc::from([0; 100]))), &UNLIMITED).unwrap();
        let before = log.bytes;
        let (pruned, head) = log.prune(incarnation, PruneTo::From(last.seq), Derived::Erase).unwrap();
        let freed = head.bytes() - of_first;
        assert!(pruned.removed == 1 && freed >= 100, "{freed}");
        assert_eq!(log.bytes, before - head.bytes());
        let left = &log.compactions[&Profile::default()];
        assert_eq!((left.window_start, &left.derived), (last.seq, &None));
    }

    #[test]
    fn an_erasure_frees_the_memory_of_provenances() {
        let (mut log, first) = begin(append("a"));
        let plain = log.append(append("b"), &UNLIMITED).unwrap();
        let mut with_provenance = append("c");
        let origin = Origin::unknown().provider("p".repeat(100));
        let provenance = Provenance::new(1, Positions::default(), PromptDigests::default(), origin);
        Arc::make_mut(&mut with_provenance.exchange).provenance = Some(Box::new(provenance));
        log.append(with_provenance, &UNLIMITED).unwrap();
        let held = log.entries[2].memory - log.entries[1].memory;
        assert!(held >= 100, "{held}");
        let (before, of_first) = (log.bytes, log.entries[0].memory);
        let keep = PruneTo::From(plain.seq);
        let (pruned, removed) = log.prune(first.revision.incarnation(), keep, Derived::Erase).unwrap();
        assert_eq!((pruned.removed, removed.bytes()), (1, of_first + held));
        assert_eq!((log.bytes, log.entries[1].memory), (before - of_first - held, log.entries[0].memory));
        assert_eq!(log.entries[1].exchange.provenance, None);
    }

    #[test]
    fn a_pruned_log_counts_only_its_remaining_exchanges() {
        let (mut log, first) = begin(append("a"));
        let empty = log.bytes - log.entries[0].memory;
        for id in ["b", "c"] {
            log.append(append(id), &UNLIMITED).unwrap();
        }
        let incarnation = first.revision.incarnation();
        let (pruned, head) = log.prune(incarnation, PruneTo::LastTurns(1), Derived::Keep).unwrap();
        assert_eq!((pruned.removed, pruned.revision.first(), pruned.revision), (2, Seq::new(2), log.revision()));
        let one = log.entries[0].memory;
        assert_eq!((head.bytes(), log.bytes, log.ids.len()), (2 * one, empty + one, 1));
        let grown = log.append(append("a"), &UNLIMITED).unwrap();
        assert_eq!((grown.seq, grown.duplicate), (Seq::new(3), false));
        let (truncated, tail) = log.truncate(grown.revision, Seq::new(2), None, &UNLIMITED).unwrap();
        assert_eq!((truncated, tail.entries.len(), log.bytes), (Truncated::new(None, 2), 2, empty));
    }
}

//! Removing exchanges from the end or the beginning of a log.

use std::sync::Arc;

use tower_chat_history_core::{
    Compact, Derived, Expect, Incarnation, PruneTo, Pruned, Revision, Seq, StoreError, Truncated, backend::PruneScan,
};

use super::{Entry, Log, Space, cites_removed, compaction_bytes, entry_bytes};

/// The exchanges that a truncation or a prune removed from a log.
#[derive(Debug, Default)]
pub(in crate::memory) struct Removal {
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
    ) -> Result<(Truncated, Removal), StoreError> {
        Expect::Exactly(expect).check(Some(self.revision()))?;
        let keep = self.index(from);
        if keep >= self.entries.len() {
            return Ok((Truncated::new(Some(self.revision()), 0), Removal::default()));
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
    ) -> Result<(Pruned, Removal), StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let mut scan = PruneScan::new(keep, self.next());
        for at in (0..self.index(scan.end()).min(self.entries.len())).rev() {
            let exchange = &self.entries[at].exchange;
            if scan.offer(self.seq(at), exchange.opens_turn(), exchange.message_count()).is_break() {
                break;
            }
        }

        let start = scan.start().map_or(0, |start| self.index(start));
        let remaining = self.entries.split_off(start);
        let head = std::mem::replace(&mut self.entries, remaining);
        let mut head = self.removed(head);
        self.first += start as u64;

        let first = self.seq(0);
        let has_derived = self.first > 0 || self.entries.iter().any(|entry| cites_removed(&entry.exchange, first));
        if derived == Derived::Erase && has_derived {
            self.incarnation = Incarnation::random();
            head.bytes += self.erase_compactions(first);
            head.bytes += self.forget_derived(first);
        }
        Ok((Pruned::new(self.revision(), head.len()), head))
    }

    /// Updates the index and the sizes after these entries were removed.
    fn removed(&mut self, entries: Vec<Entry>) -> Removal {
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
        Removal { entries, bytes }
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
                entry.exchange = Arc::new(exchange);
                entry.memory = memory.min(entry.memory);
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

impl Removal {
    /// Returns the freed memory, in bytes.
    pub(in crate::memory) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

//! Taking exchanges off a log, at its end or its beginning.

use tower_chat_history_core::{
    Expect, Incarnation, Keep, PruneScan, Pruned, Revision, Scan, Seq, StoreError, Traces, Truncated,
};

use super::{Entry, Log};

/// What a truncation or a prune took off a log.
#[derive(Debug, Default)]
pub(in crate::memory) struct Removed {
    entries: Vec<Entry>,
}

impl Log {
    /// Removes the exchanges from a position on and begins a new incarnation, in which the revision can go on counting
    /// exchanges: within one, a log only grows. A log that has no revision any more is to be removed.
    ///
    /// What was removed is returned, for dropping a long log takes its time.
    pub(in crate::memory) fn truncate(
        &mut self,
        expect: Revision,
        from: Seq,
    ) -> Result<(Truncated, Removed), StoreError> {
        Expect::Exactly(expect).check(Some(self.revision()))?;
        let keep = self.index(from);
        if keep >= self.entries.len() {
            return Ok((Truncated::new(Some(self.revision()), 0), Removed::default()));
        }
        let tail = self.entries.split_off(keep);
        let tail = self.removed(tail);
        self.incarnation = Incarnation::random();
        let compactions = std::mem::take(&mut self.compactions).into_iter();
        let stay = compactions.filter_map(|(profile, stored)| Some((profile, stored.truncated_to(from.get())?)));
        self.compactions = stay.collect();
        let revision = (keep > 0).then(|| self.revision());
        Ok((Truncated::new(revision, tail.len()), tail))
    }

    /// Removes the exchanges before those that are to stay. What was removed is returned, as by a truncation.
    pub(in crate::memory) fn prune(
        &mut self,
        incarnation: Incarnation,
        keep: Keep,
        traces: Traces,
    ) -> Result<(Pruned, Removed), StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let mut scan = PruneScan::new(keep, self.next());
        for at in (0..self.index(scan.end()).min(self.entries.len())).rev() {
            let exchange = &self.entries[at].exchange;
            if scan.offer(self.seq(at), exchange.opens_turn(), exchange.messages.len()) == Scan::Stop {
                break;
            }
        }
        let start = scan.start().map_or(0, |start| self.index(start));
        let stays = self.entries.split_off(start);
        let head = std::mem::replace(&mut self.entries, stays);
        let head = self.removed(head);
        self.first += start;
        if traces == Traces::Remove && self.first > 0 {
            self.incarnation = Incarnation::random();
            let compactions = std::mem::take(&mut self.compactions).into_iter();
            let stay = compactions.filter_map(|(profile, stored)| Some((profile, stored.without_traces()?)));
            self.compactions = stay.collect();
        }
        Ok((Pruned::new(self.revision(), head.len()), head))
    }

    /// Forgets what was taken off the log.
    fn removed(&mut self, entries: Vec<Entry>) -> Removed {
        let removed = Removed { entries };
        for entry in &removed.entries {
            self.ids.remove(&entry.exchange.id);
        }
        self.bytes -= removed.bytes();
        removed
    }
}

impl Removed {
    /// The size of all its messages.
    pub(in crate::memory) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{append, free};
    use super::*;

    #[test]
    fn a_truncated_log_counts_what_is_left() {
        let (mut log, first) = Log::begin(append("a"), free).unwrap();
        let mut last = first.revision;
        for id in ["b", "c"] {
            last = log.append(append(id), free).unwrap().revision;
        }
        let (truncated, tail) = log.truncate(last, Seq::new(1)).unwrap();
        assert_eq!((truncated.removed, truncated.revision), (2, Some(log.revision())));
        assert_eq!((tail.bytes(), log.bytes), (2 * log.bytes, log.entries[0].bytes));
        assert_eq!(log.ids.len(), 1);
        let grown = log.append(append("b"), free).unwrap();
        assert_eq!((grown.seq, grown.duplicate), (Seq::new(1), false));
        let (truncated, tail) = log.truncate(grown.revision, Seq::FIRST).unwrap();
        assert_eq!((truncated, tail.entries.len(), log.bytes), (Truncated::new(None, 2), 2, 0));
    }

    #[test]
    fn a_pruned_log_counts_what_is_left() {
        let (mut log, first) = Log::begin(append("a"), free).unwrap();
        for id in ["b", "c"] {
            log.append(append(id), free).unwrap();
        }
        let incarnation = first.revision.incarnation();
        let (pruned, head) = log.prune(incarnation, Keep::LastTurns(1), Traces::Leave).unwrap();
        assert_eq!((pruned.removed, pruned.revision.first(), pruned.revision), (2, Seq::new(2), log.revision()));
        assert_eq!((head.bytes(), log.bytes, log.ids.len()), (2 * log.bytes, log.entries[0].bytes, 1));
        let grown = log.append(append("a"), free).unwrap();
        assert_eq!((grown.seq, grown.duplicate), (Seq::new(3), false));
        let (truncated, tail) = log.truncate(grown.revision, Seq::new(2)).unwrap();
        assert_eq!((truncated, tail.entries.len(), log.bytes), (Truncated::new(None, 2), 2, 0));
    }
}

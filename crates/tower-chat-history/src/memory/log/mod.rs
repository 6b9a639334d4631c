//! One conversation: its log, the index of its exchange ids and its compactions. No locks and no waiting.

mod removal;
mod size;

use std::{collections::HashMap, sync::Arc};

use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, Exchange, ExchangeId,
    Expect, Incarnation, Load, Loaded, Page, Profile, Recorded, Revision, Seq, StoreError, Window,
    backend::{Scan, WindowScan},
};

use self::size::{of_a_compaction, of_a_conversation, of_an_entry};
use super::space::Space;

#[derive(Debug)]
pub(super) struct Log {
    incarnation: Incarnation,
    /// How many exchanges were pruned.
    first: usize,
    /// The exchanges from that position on.
    entries: Vec<Entry>,
    /// Where each exchange id stands.
    ids: HashMap<ExchangeId, Seq>,
    compactions: HashMap<Profile, Compaction>,
    /// What all of it takes in memory, in bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    exchange: Arc<Exchange>,
    /// The size of its messages' JSON, summed up once.
    bytes: usize,
    /// What it takes in memory, in bytes.
    memory: usize,
}

impl Log {
    /// Begins a conversation with its first exchange, if there is space for both.
    pub(super) fn begin(
        id: &ConversationId,
        mut append: Append,
        space: &Space,
    ) -> Result<(Self, Appended), StoreError> {
        append.expect.check(None)?;
        let mut log = Self {
            incarnation: Incarnation::random(),
            first: 0,
            entries: Vec::new(),
            ids: HashMap::new(),
            compactions: HashMap::new(),
            bytes: 0,
        };
        // The conversation is what this append makes it, so there is nothing more to expect.
        append.expect = Expect::AnyOrCreate;
        let appended = log.add(append, of_a_conversation(id), space)?;
        Ok((log, appended))
    }

    /// Adds an exchange, and its compaction if it carries one, if there is space for both.
    pub(super) fn append(&mut self, append: Append, space: &Space) -> Result<Appended, StoreError> {
        self.add(append, 0, space)
    }

    /// The same, with so many bytes more. The space is taken last, so what is refused for another reason takes none.
    fn add(&mut self, append: Append, more: usize, space: &Space) -> Result<Appended, StoreError> {
        let Append { expect, exchange, compact, .. } = append;
        if let Some(seq) = self.ids.get(&exchange.id) {
            return Ok(Appended::duplicate(self.revision(), *seq));
        }
        expect.check(Some(self.revision()))?;
        let at = self.next();
        if let Some(continues) = exchange.continues.filter(|continues| *continues >= at) {
            return Err(StoreError::ContinuesUnknown { continues, len: at.get() });
        }
        let opens_turn = |seq: Seq| if seq == at { exchange.opens_turn() } else { self.opens_turn(seq) };
        let compact = match compact {
            Some(compact) => Some(self.judge(compact, at.next().get(), opens_turn)?),
            None => None,
        };
        let (bytes, memory) = (exchange.bytes(), of_an_entry(&exchange));
        let (added, replaced) = compact.as_ref().map_or((0, 0), |verdict| self.change(verdict));
        self.take(memory + more + added, replaced, space)?;

        self.ids.insert(exchange.id.clone(), at);
        self.entries.push(Entry { exchange: Arc::new(exchange), bytes, memory });
        let compaction = compact.map(|verdict| self.carry_out(verdict));
        Ok(Appended::stored(self.revision(), at, compaction))
    }

    /// Stores a compaction by itself, if there is space for it.
    pub(super) fn compact(
        &mut self,
        incarnation: Incarnation,
        compact: Compact,
        space: &Space,
    ) -> Result<CompactOutcome, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let verdict = self.judge(compact, self.next().get(), |seq| self.opens_turn(seq))?;
        let (added, replaced) = self.change(&verdict);
        self.take(added, replaced, space)?;
        Ok(self.carry_out(verdict))
    }

    pub(super) fn load(&self, load: &Load) -> Loaded {
        if let Some(seq) = load.exchange.as_ref().and_then(|id| self.ids.get(id)) {
            return Loaded::AlreadyRecorded(self.recorded(self.index(*seq)));
        }
        let compaction = self.compactions.get(&load.profile);
        let version = compaction.map_or(CompactionVersion::NONE, |compaction| compaction.version);
        let newest = self.entries.last().map(|entry| &entry.exchange.id);
        if let Some(known) = &load.known
            && (known.revision, known.compaction) == (self.revision(), version)
            && (known.newest.is_none() || known.newest.as_ref() == newest)
        {
            return Loaded::Unchanged;
        }
        let window_start = compaction.map_or(0, |compaction| self.index(compaction.cut.window_start));
        let mut scan = WindowScan::new(load.limit);
        for (at, entry) in self.entries.iter().enumerate().skip(window_start).rev() {
            let exchange = &entry.exchange;
            if scan.offer(self.seq(at), exchange.opens_turn(), exchange.messages.len(), entry.bytes) == Scan::Stop {
                break;
            }
        }
        let start = scan.start().map_or(self.entries.len(), |start| self.index(start));
        let exchanges = (start..self.entries.len()).map(|index| self.recorded(index)).collect();
        Loaded::Window(Window::new(self.revision(), compaction.cloned(), exchanges, scan.is_truncated()))
    }

    pub(super) fn read(&self, from: Seq, limit: usize) -> Page {
        let len = self.entries.len();
        let start = self.index(from).min(len);
        let end = start.saturating_add(limit).min(len);
        let exchanges = (start..end).map(|index| self.recorded(index)).collect();
        Page::new(self.revision(), exchanges, end < len)
    }

    /// What it takes in memory, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn revision(&self) -> Revision {
        // A truncation takes the exchanges it removed off the count as well.
        Revision::new(self.incarnation, self.next().get()).beginning_at(self.seq(0))
    }

    /// The position of the next exchange.
    fn next(&self) -> Seq {
        self.seq(self.entries.len())
    }

    const fn seq(&self, index: usize) -> Seq {
        Seq::new((self.first + index) as u64)
    }

    /// The index of a position; 0 for one that was pruned. One that no index can name lies beyond every log.
    fn index(&self, seq: Seq) -> usize {
        usize::try_from(seq.get()).unwrap_or(usize::MAX).saturating_sub(self.first)
    }

    fn recorded(&self, index: usize) -> Recorded {
        Recorded::new(self.seq(index), Arc::clone(&self.entries[index].exchange))
    }

    fn opens_turn(&self, seq: Seq) -> bool {
        // What was pruned counts as an opening: a window from there starts with the log.
        seq < self.seq(0) || self.entries.get(self.index(seq)).is_some_and(|entry| entry.exchange.opens_turn())
    }

    /// Whether a compaction may be stored in a log of `len` exchanges. A stale one is no mistake: it is left out.
    fn judge(&self, compact: Compact, len: u64, opens_turn: impl FnOnce(Seq) -> bool) -> Result<Verdict, StoreError> {
        let Compact { profile, replaces, cut } = compact;
        let stored = self.compactions.get(&profile);
        if stored.map_or(CompactionVersion::NONE, |stored| stored.version) != replaces {
            return Ok(Verdict::Keep(stored.cloned()));
        }
        cut.check(stored.map(|stored| &stored.cut), len, opens_turn)?;
        Ok(Verdict::Store(profile, Compaction::new(replaces.next(), cut)))
    }

    /// What a compaction takes in memory, and what the one that it replaces takes.
    fn change(&self, verdict: &Verdict) -> (usize, usize) {
        let Verdict::Store(profile, compaction) = verdict else { return (0, 0) };
        let replaced = self.compactions.get(profile).map_or(0, |stored| of_a_compaction(profile, stored));
        (of_a_compaction(profile, compaction), replaced)
    }

    fn take(&mut self, bytes: usize, in_place_of: usize, space: &Space) -> Result<(), StoreError> {
        space.take(bytes, in_place_of)?;
        self.bytes = self.bytes - in_place_of + bytes;
        Ok(())
    }

    fn carry_out(&mut self, verdict: Verdict) -> CompactOutcome {
        match verdict {
            Verdict::Keep(stored) => CompactOutcome::Kept(stored),
            Verdict::Store(profile, compaction) => {
                let version = compaction.version;
                self.compactions.insert(profile, compaction);
                CompactOutcome::Stored(version)
            }
        }
    }
}

/// What is to become of a compaction, decided before anything is written.
enum Verdict {
    Store(Profile, Compaction),
    Keep(Option<Compaction>),
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Cut, KnownState, Message};

    use super::*;

    /// Space without end.
    pub(super) static FREE: Space = Space::new(usize::MAX);

    static FULL: Space = Space::new(0);

    pub(super) fn begin(append: Append) -> (Log, Appended) {
        Log::begin(&ConversationId::new(["a"]).unwrap(), append, &FREE).unwrap()
    }

    pub(super) fn append(id: &str) -> Append {
        Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::new(id).unwrap(), [Message::user(id)]))
    }

    #[test]
    fn a_log_that_is_full_is_as_it_was() {
        let (mut log, first) = begin(append("a"));
        let cut = Cut::window_from(Seq::new(1));
        let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
        let refused = log.append(append("b").compact(compact), &FULL).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }));
        assert_eq!((log.revision(), log.entries.len(), log.compactions.len()), (first.revision, 1, 0));
        let known = KnownState { revision: first.revision, compaction: CompactionVersion::NONE, newest: None };
        let load = Load::new().known(known.clone()).exchange(ExchangeId::new("b").unwrap());
        assert_eq!(log.load(&load), Loaded::Unchanged);
    }

    #[test]
    fn space_is_asked_for_only_by_what_would_be_stored() {
        let (mut log, _) = begin(append("a"));
        assert!(log.append(append("a"), &FULL).unwrap().duplicate);
        let refused = log.append(Append::new(Expect::Absent, append("b").exchange), &FULL).unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
    }

    #[test]
    fn loading_shares_the_exchanges() {
        let (log, _) = begin(append("a"));
        let Loaded::Window(window) = log.load(&Load::new()) else { panic!("it is there") };
        assert!(Arc::ptr_eq(&window.exchanges[0].exchange, &log.entries[0].exchange));
    }
}

//! One conversation: its log, the index of its exchange ids, and its compactions. Nothing here locks or waits.

mod fork;
mod listed;
mod removal;
mod size;

use std::{collections::HashMap, sync::Arc};

use tower_chat_history_core::{
    Added, Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, Exchange,
    ExchangeId, Expect, Incarnation, Labels, LabelsVersion, Load, Loaded, Page, Profile, Recorded, Revision, Seq,
    StoreError, Timestamp, Window,
    backend::{Scan, WindowScan},
};

use self::size::{compaction_bytes, conversation_bytes, entry_bytes};
use super::space::Space;

#[derive(Debug)]
pub(super) struct Log {
    incarnation: Incarnation,
    /// The position of the first entry.
    first: u64,
    /// The exchanges from that position on.
    entries: Vec<Entry>,
    /// The position of each exchange id.
    ids: HashMap<ExchangeId, Seq>,
    compactions: HashMap<Profile, Compaction>,
    labels: Labels,
    labels_version: LabelsVersion,
    /// The time of the exchange or the fork that created the conversation.
    created_at: Timestamp,
    /// The latest time of the fork and of all exchanges after it, also of removed ones.
    updated_at: Timestamp,
    /// The size of the messages' JSON, in bytes.
    message_bytes: usize,
    /// The memory of the conversation, in bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    exchange: Arc<Exchange>,
    /// The size of the messages' JSON, stored so that loads need not sum it up.
    bytes: usize,
    /// The memory of the exchange, in bytes.
    memory: usize,
}

impl Log {
    /// Creates a conversation with its first exchange. Returns an error if the expectation does not hold, or if there
    /// is no space for conversation and exchange.
    pub(super) fn begin(
        id: &ConversationId,
        mut append: Append,
        space: &Space,
    ) -> Result<(Self, Appended), StoreError> {
        append.expect.check(None)?;
        let mut log = Self {
            incarnation: Incarnation::random(),
            first: append.first.get(),
            entries: Vec::new(),
            ids: HashMap::new(),
            compactions: HashMap::new(),
            labels: Labels::default(),
            labels_version: LabelsVersion::NONE,
            created_at: append.exchange.at,
            updated_at: append.exchange.at,
            message_bytes: 0,
            bytes: 0,
        };
        // The expectation was checked above. `add` would check it again, against the new log.
        append.expect = Expect::AnyOrCreate;
        let appended = log.add(append, conversation_bytes(id), space)?;
        Ok((log, appended))
    }

    /// Appends an exchange, and its compaction if it has one. If there is no space for all of it, or a check fails,
    /// returns an error and stores nothing.
    pub(super) fn append(&mut self, append: Append, space: &Space) -> Result<Appended, StoreError> {
        self.add(append, 0, space)
    }

    /// Appends an exchange, and reserves its space and `extra` bytes more. The space is reserved after all checks, so
    /// an append that is refused reserves none.
    fn add(&mut self, append: Append, extra: usize, space: &Space) -> Result<Appended, StoreError> {
        let Append { expect, exchange, compact, .. } = append;
        if let Some(seq) = self.ids.get(&exchange.id) {
            return Ok(Appended::duplicate(self.revision(), *seq));
        }
        expect.check(Some(self.revision()))?;
        let at = self.next();
        // The first exchange of a log continues nothing, also no position before it.
        let is_first = self.entries.is_empty();
        if let Some(continues) = exchange.continues.filter(|continues| is_first || *continues >= at) {
            return Err(StoreError::ContinuesUnknown { continues, len: at.get() });
        }
        let (bytes, memory) = (exchange.bytes(), entry_bytes(&exchange));
        let (added, replaced) = compact.as_ref().map_or((0, 0), |compact| self.size_change(compact));
        self.take(memory + extra + added, replaced, space)?;

        self.ids.insert(exchange.id.clone(), at);
        self.updated_at = self.updated_at.max(exchange.at);
        self.message_bytes += bytes;
        self.entries.push(Entry { exchange, bytes, memory });
        let compaction = compact.map(|compact| self.apply(compact));
        Ok(Appended::stored(self.revision(), at, compaction))
    }

    /// Stores a compaction without an exchange. Returns an error if the conversation has another incarnation, or if
    /// there is no space.
    pub(super) fn compact(
        &mut self,
        incarnation: Incarnation,
        compact: Compact,
        space: &Space,
    ) -> Result<CompactOutcome, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let (added, replaced) = self.size_change(&compact);
        self.take(added, replaced, space)?;
        Ok(self.apply(compact))
    }

    /// Returns `true` if this exchange is in the log.
    pub(super) fn has(&self, exchange: &ExchangeId) -> bool {
        self.ids.contains_key(exchange)
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
        if let Some(added) = self.added(load, version) {
            return Loaded::Added(added);
        }
        let window_start = compaction.map_or(0, |compaction| self.index(compaction.window_start));
        let mut scan = WindowScan::new(load.limit);
        for (at, entry) in self.entries.iter().enumerate().skip(window_start).rev() {
            let exchange = &entry.exchange;
            if scan.offer(self.seq(at), exchange.opens_turn(), exchange.message_count(), entry.bytes) == Scan::Stop {
                break;
            }
        }
        let start = scan.start().map_or(self.entries.len(), |start| self.index(start));
        let exchanges = (start..self.entries.len()).map(|index| self.recorded(index)).collect();
        let window = Window::new(self.revision(), compaction.cloned(), exchanges, scan.is_truncated());
        Loaded::Window(window.log_bytes(self.message_bytes as u64))
    }

    /// Returns the exchanges since the known state of the load, if the log has only grown since.
    fn added(&self, load: &Load, compaction: CompactionVersion) -> Option<Added> {
        let known = load.known.as_ref().filter(|_| load.or_added)?;
        let (seq, newest) = known.end_within(self.revision(), compaction)?;
        let end = self.index(seq);
        if self.seq(end) != seq || self.entries.get(end)?.exchange.id != *newest {
            return None;
        }
        let exchanges = (end + 1..self.entries.len()).map(|index| self.recorded(index)).collect();
        Some(Added::new(self.revision(), exchanges, self.message_bytes as u64))
            .filter(|added| added.is_within(load.limit))
    }

    pub(super) fn read(&self, from: Seq, limit: usize) -> Page {
        let len = self.entries.len();
        let start = self.index(from).min(len);
        let end = start.saturating_add(limit).min(len);
        let exchanges = (start..end).map(|index| self.recorded(index)).collect();
        Page::new(self.revision(), exchanges, end < len)
    }

    /// Returns the memory of the conversation, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn revision(&self) -> Revision {
        // A truncation lowers the count. The revision stays unique because of the new incarnation.
        Revision::new(self.incarnation, self.next().get()).beginning_at(self.seq(0))
    }

    /// Returns the position of the next exchange.
    fn next(&self) -> Seq {
        self.seq(self.entries.len())
    }

    const fn seq(&self, index: usize) -> Seq {
        Seq::new(self.first.saturating_add(index as u64))
    }

    /// Returns the index of a position, or 0 if it is before the log. An index that does not fit `usize` is beyond
    /// every log.
    fn index(&self, seq: Seq) -> usize {
        usize::try_from(seq.get().saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    fn recorded(&self, index: usize) -> Recorded {
        Recorded::new(self.seq(index), Arc::clone(&self.entries[index].exchange))
    }

    /// Returns `true` if the compaction replaces the stored one. Otherwise, the stored one stays.
    fn replaces_stored(&self, compact: &Compact) -> bool {
        let stored = self.compactions.get(&compact.profile);
        stored.map_or(CompactionVersion::NONE, |stored| stored.version) == compact.replaces
    }

    /// Returns the memory that a compaction takes once it is applied, and that of the one that it replaces.
    fn size_change(&self, compact: &Compact) -> (usize, usize) {
        if !self.replaces_stored(compact) {
            return (0, 0);
        }
        let profile = &compact.profile;
        let replaced = self.compactions.get(profile).map_or(0, |stored| compaction_bytes(profile, stored));
        (compaction_bytes(profile, &compact.stored_as(compact.replaces.next())), replaced)
    }

    fn take(&mut self, bytes: usize, replaced: usize, space: &Space) -> Result<(), StoreError> {
        space.take(bytes, replaced)?;
        self.bytes = self.bytes - replaced + bytes;
        Ok(())
    }

    fn apply(&mut self, compact: Compact) -> CompactOutcome {
        if !self.replaces_stored(&compact) {
            return CompactOutcome::Kept(self.compactions.get(&compact.profile).cloned());
        }
        let version = compact.replaces.next();
        let stored = compact.stored_as(version);
        self.compactions.insert(compact.profile, stored);
        CompactOutcome::Stored(version)
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{KnownState, Message};

    use super::*;

    pub(super) static UNLIMITED: Space = Space::new(usize::MAX);

    static FULL: Space = Space::new(0);

    pub(super) fn begin(append: Append) -> (Log, Appended) {
        Log::begin(&ConversationId::new(["a"]).unwrap(), append, &UNLIMITED).unwrap()
    }

    pub(super) fn append(id: &str) -> Append {
        Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::new(id).unwrap(), [Message::user(id)]))
    }

    #[test]
    fn a_refused_append_does_not_change_the_log() {
        let (mut log, first) = begin(append("a"));
        let compact =
            Compact::new(Profile::default(), CompactionVersion::NONE, Seq::new(1), Arc::from([0_u8; 9]), None);
        let refused = log.append(append("b").compact(compact), &FULL).unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }));
        assert_eq!((log.revision(), log.entries.len(), log.compactions.len()), (first.revision, 1, 0));
        let known = KnownState { revision: first.revision, compaction: CompactionVersion::NONE, newest: None };
        let load = Load::new().known(known.clone()).exchange(ExchangeId::new("b").unwrap());
        assert_eq!(log.load(&load), Loaded::Unchanged);
    }

    #[test]
    fn other_errors_and_duplicates_come_before_the_check_of_space() {
        let (mut log, _) = begin(append("a"));
        assert!(log.append(append("a"), &FULL).unwrap().duplicate);
        let refused = log.append(Append::new(Expect::Absent, append("b").exchange), &FULL).unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
    }

    #[test]
    fn loading_shares_the_exchanges() {
        let (log, _) = begin(append("a"));
        let Loaded::Window(window) = log.load(&Load::new()) else { panic!("no window") };
        assert!(Arc::ptr_eq(&window.exchanges[0].exchange, &log.entries[0].exchange));
    }
}

//! One conversation: its log, the index of its exchange ids, its compactions and its labels, and the memory that they
//! take. Nothing here locks or waits.

mod removal;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tower_chat_history_core::{
    Added, Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, Exchange,
    ExchangeId, Expect, ForkTo, Forked, Incarnation, Labels, LabelsOutcome, LabelsVersion, Listed, Load, Loaded, Page,
    Profile, Recalled, Recorded, Removed, Revision, Seq, StoreError, Timestamp, Window, backend::WindowScan,
};

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
    /// The number of these bytes that are media.
    media_bytes: usize,
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

        let bytes = exchange.bytes();
        let media_bytes = exchange.media_bytes();
        let memory = entry_bytes(&exchange);
        let (added, replaced) = compact.as_ref().map_or((0, 0), |compact| self.size_change(compact));
        self.take(memory + extra + added, replaced, space)?;

        self.ids.insert(exchange.id.clone(), at);
        self.updated_at = self.updated_at.max(exchange.at);
        self.message_bytes += bytes;
        self.entries.push(Entry { exchange, bytes, media_bytes, memory });
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
            let Entry { exchange, bytes, media_bytes, .. } = entry;
            let messages = exchange.message_count();
            if scan.offer(self.seq(at), exchange.opens_turn(), messages, *bytes, *media_bytes).is_break() {
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

    /// Returns the entry of this conversation, which has this id.
    pub(super) fn listed(&self, id: ConversationId) -> Listed {
        Listed::new(id, self.revision(), self.created_at, self.updated_at, self.message_bytes as u64)
            .labels(self.labels.clone(), self.labels_version)
    }

    /// Replaces the labels if they have this version. Returns an error if the conversation has another incarnation, or
    /// if there is no space.
    pub(super) fn set_labels(
        &mut self,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
        space: &Space,
    ) -> Result<LabelsOutcome, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        if replaces != self.labels_version {
            return Ok(LabelsOutcome::Kept(self.labels.clone(), self.labels_version));
        }
        self.take(labels_bytes(&labels), labels_bytes(&self.labels), space)?;
        self.labels = labels;
        self.labels_version = replaces.next();
        Ok(LabelsOutcome::Stored(self.labels_version))
    }

    /// Returns the numbers of everything in this conversation.
    pub(super) fn numbers(&self) -> Removed {
        let mut numbers = Removed::default();
        numbers.conversations = 1;
        numbers.exchanges = self.entries.len() as u64;
        numbers.bytes = self.message_bytes as u64;
        numbers.exchange_ids = self.ids.len() as u64;
        numbers.compactions = self.compactions.len() as u64;
        numbers.summaries = self.compactions.values().filter(|stored| stored.derived.is_some()).count() as u64;
        numbers.labels = u64::from(!self.labels.is_empty());
        numbers
    }

    /// Returns a log with the exchanges before the position, or `None` if there is none. It shares them with this log.
    /// Returns an error if this log has another incarnation, or if there is no space.
    pub(super) fn fork(
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
    pub(super) fn result_of_repeat(&self, incarnation: Incarnation) -> Result<Forked, StoreError> {
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

/// Returns `true` if the recalled messages of an exchange survive neither an erasure from a log that begins at `first`,
/// nor a fork.
fn cites_removed(exchange: &Exchange, first: Seq) -> bool {
    let cited = exchange.recalled.as_ref().and_then(Recalled::least_cited);
    cited.is_some_and(|cited| u64::try_from(cited).is_ok_and(|cited| cited < first.get()) || cited < 0)
}

/// Counts bytes against a limit. The counter does not publish other data, so relaxed ordering suffices.
#[derive(Debug)]
pub(super) struct Space {
    limit: usize,
    used: AtomicUsize,
}

impl Space {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Reserves `bytes` bytes in place of `replaced` bytes that were reserved before. If the sum of all reservations
    /// would exceed the limit, returns an error and changes nothing. If `bytes` is at most `replaced`, always
    /// succeeds.
    pub(super) fn take(&self, bytes: usize, replaced: usize) -> Result<(), StoreError> {
        let Some(requested) = bytes.checked_sub(replaced).filter(|more| *more > 0) else {
            self.give_back(replaced - bytes);
            return Ok(());
        };
        let taken = self
            .used
            .fetch_update(Relaxed, Relaxed, |used| used.checked_add(requested).filter(|after| *after <= self.limit));
        taken.map(drop).map_err(|used| StoreError::Full { used, requested, limit: self.limit })
    }

    /// Releases bytes that were reserved before.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// The overhead of an allocated block: the allocator's header, rounding up, and the counters of an `Arc`.
const BLOCK_OVERHEAD: usize = 32;

/// Returns the size of a slot in a hash table, which is at least 3/8 full, including its control byte.
const fn hash_slot(bytes: usize) -> usize {
    (bytes + 1) * 8 / 3
}

/// Returns the size of a conversation before its first exchange: its slots in the store and in the order of ids, its
/// id, and the first blocks of its three tables.
fn conversation_bytes(id: &ConversationId) -> usize {
    // The nodes of the order are at least half full, and have nodes above them.
    let slots = hash_slot(size_of::<(ConversationId, Log)>()) + 3 * size_of::<ConversationId>();
    slots + id.as_str().len() + 4 * BLOCK_OVERHEAD + 4 * size_of::<Entry>()
}

/// Returns the size of labels. Their tree has nodes of 11 slots, which are at least half full.
fn labels_bytes(labels: &Labels) -> usize {
    let node = 11 * size_of::<(String, String)>() + BLOCK_OVERHEAD;
    labels.len().div_ceil(5) * node + labels.bytes() + labels.len() * 2 * BLOCK_OVERHEAD
}

/// Returns the size of an exchange, including its slots in the list and in the table of ids.
fn entry_bytes(exchange: &Exchange) -> usize {
    // A list is at least half full.
    exchange.memory() + 2 * size_of::<Entry>() + hash_slot(size_of::<(ExchangeId, Seq)>())
}

/// Returns the size of a compaction, including its slot in the table of profiles.
fn compaction_bytes(profile: &Profile, compaction: &Compaction) -> usize {
    let heap = compaction.memory() - size_of::<Compaction>();
    heap + hash_slot(size_of::<(Profile, Compaction)>()) + profile.as_str().len() + BLOCK_OVERHEAD
}

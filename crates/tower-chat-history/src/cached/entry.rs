//! The cached windows of one conversation: their updates and their sizes. Nothing here locks or waits.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tower_chat_history_core::{
    Added, Appended, Compact, CompactOutcome, Compaction, ConversationId, Exchange, Incarnation, Load, LoadLimit,
    Profile, Recorded, Seq, Window, backend::WindowScan,
};

/// The largest number of cached windows of one conversation. Few services use more profiles and limits.
const MAX_WINDOWS: usize = 4;

/// The cached windows of one conversation. They are immutable, so each holder has a consistent state of the log.
#[derive(Debug)]
pub(super) struct Entry {
    /// The windows in the order of their loads, the newest last. A boxed slice has no unused capacity, while a `Vec`
    /// would allocate four elements at first.
    windows: Box<[CachedWindow]>,
    pub(super) used: LastUsed,
}

/// The result of a load with this profile and limit. It is current until another process changes the conversation.
#[derive(Clone, Debug)]
pub(super) struct CachedWindow {
    profile: Profile,
    limit: LoadLimit,
    window: Window,
    size: Size,
}

impl Entry {
    /// Returns an estimate of the memory that the entry takes under this id, in bytes, including its share of the
    /// cache's tables.
    pub(super) fn bytes(&self, id: &ConversationId) -> u64 {
        (conversation_bytes(id) + windows_bytes(&self.windows)) as u64
    }

    /// Returns the cached window for this load. The store has to confirm that it is still current.
    pub(super) fn window(&self, load: &Load) -> Option<&CachedWindow> {
        self.windows.iter().find(|cached| cached.answers(&load.profile, load.limit))
    }

    /// Returns the entry after a load of this window. The oldest windows are removed until the entry fits `max_bytes`.
    pub(super) fn loaded(id: &ConversationId, before: Option<&Self>, loaded: CachedWindow, max_bytes: u64) -> Self {
        let incarnation = loaded.window.revision.incarnation();
        let mut windows = Vec::new();
        for cached in before.into_iter().flat_map(|entry| &entry.windows) {
            // Windows of an earlier incarnation are never used again, and their messages were deleted from the store.
            let is_current = cached.window.revision.incarnation() == incarnation;
            if is_current && !cached.answers(&loaded.profile, loaded.limit) {
                windows.push(cached.clone());
            }
        }
        windows.push(loaded);

        let most = usize::try_from(max_bytes).unwrap_or(usize::MAX).saturating_sub(conversation_bytes(id));
        while windows.len() > MAX_WINDOWS || (windows.len() > 1 && windows_bytes(&windows) > most) {
            windows.remove(0);
        }
        Self { windows: windows.into(), used: LastUsed::default() }
    }

    /// Returns the entry after an append of this exchange. Returns `None` if all its windows are outdated.
    pub(super) fn appended(
        &self,
        exchange: Arc<Exchange>,
        compact: Option<&Compact>,
        appended: &Appended,
    ) -> Option<Self> {
        exchange.share_counts();
        let recorded = Recorded::new(appended.seq, exchange);
        let compacted = compact.zip(appended.compaction.as_ref());
        let windows: Box<[_]> =
            self.windows.iter().filter_map(|cached| cached.appended(&recorded, compacted, appended)).collect();
        (!windows.is_empty()).then_some(Self { windows, used: LastUsed::default() })
    }

    /// Returns the entry after a compaction in this incarnation. Returns `None` if nothing changes.
    pub(super) fn compacted(
        &self,
        incarnation: Incarnation,
        compact: &Compact,
        outcome: &CompactOutcome,
    ) -> Option<Self> {
        let mut windows = self.windows.clone();
        let mut changed = false;
        for cached in windows.iter_mut().filter(|cached| cached.window.revision.incarnation() == incarnation) {
            changed |= cached.compact(compact, outcome);
        }
        changed.then_some(Self { windows, used: LastUsed::default() })
    }
}

impl CachedWindow {
    /// Creates the window that a load with this profile and limit returned.
    pub(super) fn new(profile: Profile, limit: LoadLimit, mut window: Window) -> Self {
        window.exchanges.shrink_to_fit();
        let size = Size::of(&window.exchanges);
        Self { profile, limit, window, size }
    }

    pub(super) const fn window(&self) -> &Window {
        &self.window
    }

    fn answers(&self, profile: &Profile, limit: LoadLimit) -> bool {
        self.profile == *profile && self.limit == limit
    }

    /// Returns the window with the exchanges that other processes have added, as a load would return it. Returns `None`
    /// if the log does not have the size of both: a failover has then replaced an earlier exchange of the window.
    pub(super) fn extended(&self, added: &Added) -> Option<Self> {
        let added_bytes: usize = added.exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum();
        if self.window.log_bytes.saturating_add(added_bytes as u64) != added.log_bytes {
            return None;
        }
        let mut cached = self.clone();
        cached.size = added.exchanges.iter().fold(cached.size, |size, recorded| size.with(&recorded.exchange));
        cached.window.exchanges.reserve_exact(added.exchanges.len());
        cached.window = cached.window.with_added(added.clone());
        cached.cut_to_limit();
        Some(cached)
    }

    /// Returns the memory that the window takes, in bytes, in addition to its place in the list of windows.
    pub(super) fn bytes(&self) -> usize {
        let compaction = self.window.compaction.as_ref().map_or(0, compaction_heap_bytes);
        let list = list_bytes::<Recorded>(self.window.exchanges.capacity());
        shared_text_bytes(self.profile.as_str()) + compaction + list + self.size.memory
    }

    /// Returns the window after this append. Returns `None` if the log has changed in other ways since the window was
    /// loaded.
    fn appended(
        &self,
        recorded: &Recorded,
        compacted: Option<(&Compact, &CompactOutcome)>,
        appended: &Appended,
    ) -> Option<Self> {
        let before = self.window.revision;
        let after = appended.revision;
        let next = self.window.exchanges.last()?.seq.next();
        if before.incarnation() != after.incarnation() {
            return None;
        }
        if next > appended.seq {
            // The window already has an exchange at this position. If it is this exchange, a load that ran at the
            // same time has already returned it. Otherwise the end of the log was lost, and this exchange was stored
            // at the position of a lost one.
            let known = self.window.exchanges.iter().find(|known| known.seq == appended.seq);
            return known.filter(|known| known.exchange.id == recorded.exchange.id).map(|_| self.clone());
        }
        if next < appended.seq || before.first() != after.first() {
            return None;
        }

        let mut cached = self.clone();
        cached.window.revision = after;
        cached.window.log_bytes = cached.window.log_bytes.saturating_add(recorded.exchange.bytes() as u64);
        // A `push` alone would double the capacity.
        cached.window.exchanges.reserve_exact(1);
        cached.window.exchanges.push(recorded.clone());
        cached.size = cached.size.with(&recorded.exchange);
        if let Some((compact, outcome)) = compacted {
            cached.compact(compact, outcome);
        }
        cached.cut_to_limit();
        Some(cached)
    }

    /// Applies a compaction if it has this profile and was stored. Returns `true` if it was applied. If the store
    /// kept another compaction, or the window would have to begin earlier, it stays outdated until its next load.
    fn compact(&mut self, compact: &Compact, outcome: &CompactOutcome) -> bool {
        let CompactOutcome::Stored(version) = outcome else { return false };
        if compact.profile != self.profile {
            return false;
        }

        let window = &mut self.window;
        let start = compact.window_start.max(window.revision.first());
        let begins_earlier = window.exchanges.first().is_some_and(|first| start < first.seq);
        if begins_earlier && !window.truncated {
            // The compaction brings exchanges back that this window does not have.
            return false;
        }

        window.truncated &= begins_earlier;
        window.compaction = Some(compact.stored_as(*version));
        self.begin_at(start);
        true
    }

    /// Removes the exchanges before this position, and frees the unused capacity.
    fn begin_at(&mut self, start: Seq) {
        let exchanges = &mut self.window.exchanges;
        exchanges.retain(|recorded| recorded.seq >= start);
        exchanges.shrink_to_fit();
        self.size = Size::of(exchanges.iter());
    }

    /// Removes the exchanges that a load with this limit would not return any more.
    fn cut_to_limit(&mut self) {
        if !self.size.exceeds(self.limit) {
            return;
        }

        let mut scan = WindowScan::new(self.limit);
        for Recorded { seq, exchange, .. } in self.window.exchanges.iter().rev() {
            let messages = exchange.message_count();
            let offered = scan.offer(*seq, exchange.opens_turn(), messages, exchange.bytes(), exchange.media_bytes());
            if offered.is_break() {
                break;
            }
        }
        if let Some(start) = scan.start().filter(|_| scan.is_truncated()) {
            self.window.truncated = true;
            self.begin_at(start);
        }
    }
}

/// The size of a window, stored so that an append need not sum it up again.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// The number of messages, as a load limit [counts](Exchange::counted_messages) them.
    messages: usize,
    /// The size of the messages' JSON.
    bytes: usize,
    /// The number of these bytes that are media.
    media_bytes: usize,
    /// The memory that the exchanges take, in bytes, in addition to their places in the window's list.
    memory: usize,
}

impl Size {
    fn of<'a>(exchanges: impl IntoIterator<Item = &'a Recorded>) -> Self {
        exchanges.into_iter().fold(Self::default(), |size, recorded| size.with(&recorded.exchange))
    }

    fn with(self, exchange: &Exchange) -> Self {
        Self {
            messages: self.messages + exchange.counted_messages(),
            bytes: self.bytes + exchange.bytes(),
            media_bytes: self.media_bytes + exchange.media_bytes(),
            memory: self.memory + exchange.memory(),
        }
    }

    const fn exceeds(self, limit: LoadLimit) -> bool {
        !limit.allows(self.messages, self.bytes, self.media_bytes)
    }
}

/// The overhead of an allocated block: the allocator's header, and rounding up.
const BLOCK_OVERHEAD: usize = 16;
/// The two counters of an `Arc`.
const ARC_COUNTERS: usize = 2 * size_of::<usize>();

/// The size of an item's state in `quick_cache`, and of its links in the cache's lists.
const ITEM_STATE: usize = 24;
/// A slot in the cache's list of items, which is at least half full.
const ITEM_SLOT: usize = 2 * (size_of::<(ConversationId, Arc<Entry>)>() + ITEM_STATE);
/// A slot in the cache's hash table, which is at least 7/16 full: an index and a control byte.
const HASH_SLOT: usize = (size_of::<u32>() + 1) * 16 / 7 + 1;

// The sizes are upper bounds, in bytes, of what windows take in addition to their messages.

/// Returns the size of a conversation without windows: its slots in the cache, its id, and the block of its entry.
fn conversation_bytes(id: &ConversationId) -> usize {
    let id = BLOCK_OVERHEAD + ARC_COUNTERS + id.as_str().len();
    ITEM_SLOT + HASH_SLOT + id + BLOCK_OVERHEAD + ARC_COUNTERS + size_of::<Entry>()
}

/// Returns the size of a conversation's windows.
fn windows_bytes(windows: &[CachedWindow]) -> usize {
    list_bytes::<CachedWindow>(windows.len()) + windows.iter().map(CachedWindow::bytes).sum::<usize>()
}

/// Returns the size of a list's block with this capacity. An empty list has no block.
const fn list_bytes<T>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { capacity.saturating_mul(size_of::<T>()).saturating_add(BLOCK_OVERHEAD) }
}

/// Returns the size of a text in an `Arc`.
fn shared_text_bytes(text: &str) -> usize {
    text.len() + ARC_COUNTERS + BLOCK_OVERHEAD
}

/// Returns the size of a compaction's heap memory.
fn compaction_heap_bytes(compaction: &Compaction) -> usize {
    compaction.memory().saturating_sub(size_of::<Compaction>())
}

/// The time at which an item was last used, in milliseconds of the cache's clock.
#[derive(Debug, Default)]
pub(super) struct LastUsed(AtomicU64);

impl LastUsed {
    pub(super) fn set(&self, millis: u64) {
        self.0.store(millis, Relaxed);
    }

    pub(super) fn millis(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{CompactionVersion, ExchangeId, Message, Revision};

    use super::*;

    fn exchange(text: &str) -> Arc<Exchange> {
        Arc::new(Exchange::new(ExchangeId::new(text).unwrap(), [Message::user(text)]))
    }

    fn id() -> ConversationId {
        ConversationId::new(["a"]).unwrap()
    }

    /// Returns an entry with the window that this load returned.
    fn entry(load: &Load, window: Window) -> Entry {
        let loaded = CachedWindow::new(load.profile.clone(), load.limit, window);
        Entry::loaded(&id(), None, loaded, u64::MAX)
    }

    /// Returns the window that the entry has for this load.
    fn cached<'e>(entry: &'e Entry, load: &Load) -> &'e Window {
        entry.window(load).unwrap().window()
    }

    /// Returns an entry with a window of these exchanges, and the append of the last one.
    fn loaded(texts: &[&str]) -> (Entry, Appended) {
        let recorded = texts.iter().zip(0..).map(|(text, seq)| Recorded::new(Seq::new(seq), exchange(text)));
        let exchanges: Vec<_> = recorded.collect();
        let revision = Revision::new(Incarnation::from_bytes([7; 16]), texts.len() as u64);
        let appended = Appended::stored(revision, exchanges[texts.len() - 1].seq, None);
        let window = Window::new(revision, None, exchanges, false);
        (entry(&Load::new(), window), appended)
    }

    #[test]
    fn an_append_that_was_already_loaded_does_not_change_the_window() {
        let (entry, appended) = loaded(&["one", "two"]);
        let after = entry.appended(exchange("two"), None, &appended).unwrap();
        assert_eq!(cached(&after, &Load::new()), cached(&entry, &Load::new()));
    }

    #[test]
    fn a_window_whose_last_exchange_was_lost_is_removed() {
        let (entry, appended) = loaded(&["one", "lost"]);
        assert!(entry.appended(exchange("two"), None, &appended).is_none());
    }

    #[test]
    fn cached_windows_are_cut_like_loaded_ones_if_exchanges_have_no_messages() {
        let empty = |seq: u64| {
            let id = ExchangeId::new(format!("e{seq}")).unwrap();
            Recorded::new(Seq::new(seq), Exchange::new(id, []))
        };
        let incarnation = Incarnation::from_bytes([7; 16]);
        let load = Load::new().limit(LoadLimit::new(2, 1 << 20).unwrap());
        let second = empty(1);
        let third = empty(2);
        let window = Window::new(Revision::new(incarnation, 2), None, vec![empty(0), second.clone()], false);
        let appended = Appended::stored(Revision::new(incarnation, 3), third.seq, None);
        let entry = entry(&load, window);
        let entry = entry.appended(Arc::clone(&third.exchange), None, &appended).unwrap();
        let cached = cached(&entry, &load);
        assert_eq!((&*cached.exchanges, cached.truncated), (&[second, third][..], true));
    }

    #[test]
    fn lists_of_exchanges_have_no_spare_capacity() {
        let texts: Vec<String> = (0..100).map(|n| format!("e{n}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (entry, _) = loaded(&texts);
        let revision = Revision::new(Incarnation::from_bytes([7; 16]), 101);
        let appended = Appended::stored(revision, Seq::new(100), None);
        let grown = entry.appended(exchange("e100"), None, &appended).unwrap();
        let compact =
            Compact::new(Profile::default(), CompactionVersion::NONE, Seq::new(99), Arc::from([0_u8; 9]), None);
        let stored = CompactOutcome::Stored(CompactionVersion::new(1));
        let cut = grown.compacted(revision.incarnation(), &compact, &stored).unwrap();
        for (entry, len) in [(entry, 100), (grown, 101), (cut, 2)] {
            let exchanges = &entry.windows[0].window.exchanges;
            assert_eq!((exchanges.len(), exchanges.capacity()), (len, len));
        }
    }
}

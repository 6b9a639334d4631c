//! A store that caches windows in the process between calls.
//!
//! # Decisions
//!
//! - **A cached window is checked at every load**: the store says that it's unchanged, or returns what was added.
//!   Processes needn't notify each other. The newest exchange's id is compared because a failover can lose appends.

mod entry;

use std::{
    collections::hash_map::RandomState,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use quick_cache::{
    Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tokio::time::Instant;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, KnownState, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing,
    Load, Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate,
    Truncated, Window,
};

use self::entry::{CachedWindow, Entry, LastUsed};

/// A store that caches the windows of another store, so that a conversation's next call need not transfer and decode
/// them again.
///
/// Use it for a store behind a network, or if windows are long:
///
/// ```
/// use tower_chat_history::{CachedStore, ChatHistoryLayer, adapt::Json};
/// # use tower_chat_history::MemoryStore as RedisStore;
///
/// # let redis = RedisStore::new();
/// let layer = ChatHistoryLayer::new(CachedStore::new(redis), Json::new());
/// ```
///
/// # Consistency
///
/// Each load revalidates the cached window with the store, by revision, newest exchange and compaction
/// ([`Load::known`]). If another process has changed the conversation since, the store returns what it
/// [added](Loaded::Added), or the current window. Programs therefore never have to invalidate the cache, and any number
/// of processes may share the store.
///
/// If a process has stored the conversation's last turn, it already has the window for the next one. The load then
/// transfers and decodes no messages, and their tokens are not counted again. If the calls of a conversation go to
/// several processes, a load of a PostgreSQL, Redis or memory store transfers and decodes only the exchanges that the
/// other processes have stored since. A SQLite store then returns the whole window.
///
/// If a database server fails over to a replica that lags, the last acknowledged appends are lost. The cache detects
/// this at the next load, because the newest exchange differs. In two cases, it does not:
///
/// - A turn of this process began before the failover and is stored after a turn of another process. The cache detects
///   it when a later load returns added exchanges, unless the lost exchange had as many bytes as the one in its place.
/// - A compaction was lost and another one with the same version was stored after it. The window stays as it is until
///   the next compaction.
///
/// # Memory
///
/// The memory is bounded by an estimate of what the windows take: messages and copied parts of them (such as the
/// arguments of tool calls), the other fields of exchanges, summaries, and a fixed cost per conversation for its id
/// and its places in the cache's tables. Messages of an application's own [dialect](crate::dialect::Dialect) count six
/// times, because their parsed parts are added after they were loaded. A conversation is cached if it takes at most
/// about 8 MiB, or at most the limit if that is smaller. To stay within the limit, the least recently used
/// conversations are evicted.
///
/// Messages stay in memory until they are evicted, or until their conversation is deleted, truncated, pruned or erased
/// through this store. (A load that runs at the same time may insert them again. The next load detects that they are
/// outdated.) If another process deletes or erases a conversation, its messages stay in this process's memory until
/// they were not used for one hour. The cache looks for such conversations every five minutes, when it is used. A
/// program that no longer uses the cache calls [`forget_idle`](Self::forget_idle). [`forget`](Self::forget) removes the
/// conversations under a prefix, and [`clear`](Self::clear) removes all of them.
///
/// Only windows are cached, because each call of the layer loads one. Of each conversation, up to four windows with
/// different profiles or load limits are cached. [`read`](HistoryStore::read) always reads the store. A clone shares
/// the cache.
#[derive(Clone)]
pub struct CachedStore<S> {
    inner: S,
    windows: Arc<Windows>,
    clock: Arc<UseClock>,
}

type Windows = Cache<ConversationId, Arc<Entry>, EstimateBytes, RandomState>;

/// Estimates the memory of an entry, in bytes.
#[derive(Clone, Copy)]
struct EstimateBytes;

impl Weighter<ConversationId, Arc<Entry>> for EstimateBytes {
    fn weight(&self, id: &ConversationId, entry: &Arc<Entry>) -> u64 {
        entry.bytes(id)
    }
}

/// The minimum size of a shard, in bytes, except in a smaller cache. The cache is divided into shards, each with a
/// lock, and a conversation that is larger than a shard is not cached. A window of the default
/// [`LoadLimit`](tower_chat_history_core::LoadLimit) fits.
const SHARD_BYTES: usize = 8 << 20;

/// The smallest number of items per shard in `quick_cache`, which derives the number of shards from the expected
/// number of items.
const ITEMS_PER_SHARD: usize = 32;

/// The largest share of a shard that one item may take in `quick_cache`, in percent.
const MAX_ITEM_PERCENT: u64 = 97;

/// The time for which an unused item stays in a cache: one hour.
const IDLE_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The pause between two searches for idle items. A search looks at all items.
const PAUSE: Duration = Duration::from_secs(5 * 60);

impl<S> CachedStore<S> {
    /// The default limit, in bytes: 64 MiB, enough for about 1,500 windows of 60 messages.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// Creates a cache for `store` with the [default limit](Self::DEFAULT_LIMIT).
    pub fn new(store: S) -> Self {
        Self::with_limit(store, Self::DEFAULT_LIMIT)
    }

    /// Creates a cache for `store` that takes about `bytes` bytes of memory at most, by its estimate. See
    /// [`limit`](Self::limit).
    pub fn with_limit(store: S, bytes: usize) -> Self {
        // `quick_cache` rounds the number of shards up to a power of two, which would make the shards smaller. So the
        // number is rounded down here.
        let shards = 1 << (bytes / SHARD_BYTES).max(1).ilog2().min(6);
        let items = shards * ITEMS_PER_SHARD;
        // Ids come from users, so their hashes are keyed.
        let windows = Cache::with(items, bytes as u64, EstimateBytes, RandomState::new(), DefaultLifecycle::default());
        Self { inner: store, windows: Arc::new(windows), clock: Arc::new(UseClock::new()) }
    }

    /// Returns the cached store.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the limit, in bytes of memory. It is the limit that was set, rounded up to a multiple of the number of
    /// shards.
    #[must_use]
    pub fn limit(&self) -> usize {
        usize::try_from(self.windows.capacity()).unwrap_or(usize::MAX)
    }

    /// Returns the estimated size of the cached windows, in bytes.
    #[must_use]
    pub fn used(&self) -> usize {
        usize::try_from(self.windows.weight()).unwrap_or(usize::MAX)
    }

    /// Removes all windows from the cache. The store does not change.
    pub fn clear(&self) {
        self.windows.clear();
    }

    /// Removes the windows of all conversations that were not used for this long from the cache. The store does not
    /// change.
    pub fn forget_idle(&self, idle: Duration) {
        let is_idle = self.clock.idle_for(idle);
        self.windows.retain(|_, entry| !is_idle(&entry.used));
    }

    /// Removes all windows of conversations under the prefix from the cache. The store does not change.
    pub fn forget(&self, under: &Prefix) {
        self.windows.retain(|id, _| !under.contains(id));
    }

    fn get(&self, id: &ConversationId) -> Option<Arc<Entry>> {
        if self.clock.is_search_due() {
            self.forget_idle(IDLE_LIMIT);
        }
        let entry = self.windows.get(id)?;
        self.clock.touch(&entry.used);
        Some(entry)
    }

    fn insert(&self, id: &ConversationId, entry: Entry) {
        self.clock.touch(&entry.used);
        self.windows.insert(id.clone(), Arc::new(entry));
    }

    /// Caches a window that was loaded, next to the other windows of its conversation. Returns the window.
    fn loaded(&self, id: &ConversationId, before: Option<&Entry>, loaded: CachedWindow) -> Window {
        let window = loaded.window().clone();
        let max_bytes = self.windows.shard_capacity() / 100 * MAX_ITEM_PERCENT;
        self.insert(id, Entry::loaded(id, before, loaded, max_bytes));
        window
    }

    fn remove(&self, id: &ConversationId) {
        self.windows.remove(id);
    }
}

/// The clock of a cache. It counts milliseconds since the cache was created.
#[derive(Debug)]
struct UseClock {
    start: Instant,
    /// The time of the last search for idle items.
    searched: AtomicU64,
}

impl UseClock {
    fn new() -> Self {
        Self { start: Instant::now(), searched: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        millis(self.start.elapsed())
    }

    /// Records that an item is used now.
    fn touch(&self, item: &LastUsed) {
        item.set(self.now());
    }

    /// Returns a test for items that have been unused for this long.
    fn idle_for(&self, limit: Duration) -> impl Fn(&LastUsed) -> bool + use<> {
        let now = self.now();
        let limit = millis(limit);
        move |item| now.saturating_sub(item.millis()) >= limit
    }

    /// Returns `true` if it is time to search for idle items. Of several callers at the same time, one gets `true`.
    fn is_search_due(&self) -> bool {
        let now = self.now();
        let before = self.searched.load(Relaxed);
        now.saturating_sub(before) >= millis(PAUSE)
            && self.searched.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the answer to a load whose caller knows this state.
fn answer(window: Window, known: Option<KnownState>) -> Loaded {
    let is_known = known.is_some_and(|known| window.is_known(&known));
    if is_known { Loaded::Unchanged } else { Loaded::Window(window) }
}

/// Makes a store call that removes exchanges, and removes the conversation's windows from the cache, twice. They are
/// removed before the call, because the future may be dropped while the store still completes the call. They are
/// removed after the call, because a load during the call may have inserted them again.
async fn removing<T: Send>(windows: &Windows, id: &ConversationId, call: impl Future<Output = T> + Send) -> T {
    windows.remove(id);
    let answer = call.await;
    windows.remove(id);
    answer
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for CachedStore<S> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, mut load: Load) -> Result<Loaded, StoreError> {
        let entry = self.get(id);
        let known = load.known.clone();
        let cached = entry.as_deref().and_then(|entry| entry.window(&load));
        if let Some(cached) = cached {
            load.known = Some(cached.window().known());
            load.or_added = true;
        }

        let mut loaded = self.inner.load(id, load.clone()).await?;
        if let (Loaded::Added(added), Some(cached)) = (&loaded, cached) {
            if let Some(extended) = cached.extended(added) {
                return Ok(answer(self.loaded(id, entry.as_deref(), extended), known));
            }
            // A failover lost an exchange of the window. The window is loaded as if nothing of it were known.
            load.known = None;
            load.or_added = false;
            loaded = self.inner.load(id, load.clone()).await?;
        }

        match (loaded, cached) {
            (Loaded::Unchanged, Some(cached)) => Ok(answer(cached.window().clone(), known)),
            (Loaded::Window(window), _) => {
                let window = CachedWindow::new(load.profile, load.limit, window);
                Ok(answer(self.loaded(id, entry.as_deref(), window), known))
            }
            (Loaded::Absent(epoch), _) => {
                self.remove(id);
                Ok(Loaded::Absent(epoch))
            }
            (loaded @ (Loaded::Unchanged | Loaded::Added(_) | Loaded::AlreadyRecorded(_)), _) => Ok(loaded),
        }
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        if !self.windows.contains_key(id) {
            return self.inner.append(id, append).await;
        }

        let exchange = Arc::clone(&append.exchange);
        let compact = append.compact.clone();
        let appended = self.inner.append(id, append).await?;
        if let Some(entry) = self.windows.get(id).filter(|_| !appended.duplicate) {
            match entry.appended(exchange, compact.as_ref(), &appended) {
                Some(entry) => self.insert(id, entry),
                None => self.remove(id),
            }
        }
        Ok(appended)
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let outcome = self.inner.compact(id, incarnation, compact.clone()).await?;
        if let Some(entry) = self.windows.get(id).and_then(|entry| entry.compacted(incarnation, &compact, &outcome)) {
            self.insert(id, entry);
        }
        Ok(outcome)
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        removing(&self.windows, id, self.inner.delete(id)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for CachedStore<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        removing(&self.windows, id, self.inner.truncate(id, expect, from, keep)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for CachedStore<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        removing(&self.windows, id, self.inner.prune(id, incarnation, keep, derived)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Fork> Fork for CachedStore<S> {
    /// Makes the copy in the store. Windows that are cached under the id of the copy are of earlier incarnations, so
    /// they are not used any more, and the first load of the copy caches its own.
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        self.inner.fork(id, incarnation, to).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for CachedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.inner.list(under, after, limit).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.inner.describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.inner.set_labels(id, incarnation, replaces, labels).await
    }
}

/// An erasure removes the windows of the whole prefix from the cache when it is recorded, and after its last page, for
/// the reasons that `removing` states. Each removal looks at the whole cache, so the pages between make none.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for CachedStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.forget(under);
        self.inner.bar(under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let erased = self.inner.erase(under, after, limit).await;
        if erased.as_ref().map_or(true, |page| page.next.is_none()) {
            self.forget(under);
        }
        erased
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        removing(&self.windows, id, self.inner.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.inner.count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.inner.scrub().await
    }
}

impl<S: fmt::Debug> fmt::Debug for CachedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("inner", &self.inner).field("used", &self.used()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_idle_after_the_limit() {
        let clock = UseClock::new();
        let item = LastUsed::default();
        clock.touch(&item);
        assert!(clock.idle_for(Duration::ZERO)(&item));
        assert!(!clock.idle_for(IDLE_LIMIT)(&item));
    }

    #[test]
    fn no_search_is_due_at_first() {
        assert!(!UseClock::new().is_search_due());
    }
}

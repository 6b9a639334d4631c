//! Windows that stay in the process between calls.

mod entry;
mod size;

use std::{collections::hash_map::RandomState, fmt, sync::Arc};

use async_trait::async_trait;
use quick_cache::{
    Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page,
    Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use self::entry::Entry;

/// A store that keeps the windows it has loaded, so that a conversation's next call need not transfer and decode them again.
///
/// Put it around a store that is reached through a network, or whose windows are long:
///
/// ```
/// use tower_chat_history::{CachedStore, ChatHistoryLayer, adapt::Json};
/// # use tower_chat_history::MemoryStore as RedisStore;
///
/// # let redis = RedisStore::new();
/// let layer = ChatHistoryLayer::new(CachedStore::new(redis), Json::new());
/// ```
///
/// **What is kept is compared with the store at each load**, by revision, newest exchange and compaction ([`Load::known`]): the
/// store answers [`Loaded::Unchanged`], or with the window if another replica has appended, compacted, truncated, pruned or
/// deleted meanwhile. So there is nothing to invalidate, and any number of processes may share the store. A replica that made
/// the last turn itself knows the window that the next turn needs: it saves the transfer of the messages and the work of
/// decoding them, and their tokens stay counted. Where a conversation's calls go to another replica each time, nothing is
/// gained and nothing lost.
///
/// A server that fails over to a replica that was behind loses what it acknowledged last. That is found out as well, at the next
/// load that ends with another exchange; unless by then a turn of this process that began before the failover was stored behind
/// another process's. A compaction that was lost so, and another one under its number, are not told apart.
///
/// **The memory is bounded**, by an estimate of what the windows take: messages and what is copied out of them (the
/// arguments of tool calls, for one), the other fields of exchanges, summaries, and what a conversation costs however
/// little it says: its id and its places in the cache's tables. A conversation is kept if it takes less than about 8
/// MiB, or than the limit if that is smaller; room is made by what has not been used for long.
///
/// Messages that were read stay in memory until they make room for others, or their conversation is deleted, truncated or pruned
/// through this store. (A load that is under way meanwhile can put them back; they are not used.) [`clear`](Self::clear)
/// removes all of them.
///
/// Only what the layer loads at each call is kept: windows, up to four of a conversation, by profile and limit.
/// [`read`](HistoryStore::read) reads the store. A clone shares what is kept.
#[derive(Clone)]
pub struct CachedStore<S> {
    inner: S,
    windows: Arc<Windows>,
}

type Windows = Cache<ConversationId, Arc<Entry>, Estimate, RandomState>;

/// What an entry takes, in bytes.
#[derive(Clone, Copy)]
struct Estimate;

impl Weighter<ConversationId, Arc<Entry>> for Estimate {
    fn weight(&self, id: &ConversationId, entry: &Arc<Entry>) -> u64 {
        entry.bytes(id)
    }
}

/// The cache is divided into parts with locks of their own, and what is larger than a part is not kept. This is enough for a
/// window of the default [`LoadLimit`](tower_chat_history_core::LoadLimit).
const PART: usize = 8 << 20;

/// How many items `quick_cache` wants in a part at least: by how many there are said to be, it decides on the parts.
const ITEMS: usize = 32;

/// How much of a part one item may take, as `quick_cache` has it, in percent.
const SHARE: u64 = 97;

impl<S> CachedStore<S> {
    /// The limit unless another one is set, in bytes: 64 MiB, some 1,500 windows of 60 messages.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// Keeps the windows of that store, up to [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT).
    pub fn new(store: S) -> Self {
        Self::with_limit(store, Self::DEFAULT_LIMIT)
    }

    /// Keeps the windows of that store, up to that many bytes.
    pub fn with_limit(store: S, bytes: usize) -> Self {
        // A power of two: it is rounded up to one, and the parts would be too small.
        let parts = 1 << (bytes / PART).max(1).ilog2().min(6);
        // Ids come from users, so their hashes are keyed.
        let windows =
            Cache::with(parts * ITEMS, bytes as u64, Estimate, RandomState::new(), DefaultLifecycle::default());
        Self { inner: store, windows: Arc::new(windows) }
    }

    /// The store behind it.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// How many bytes the kept windows take, by the estimate.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.windows.weight()
    }

    /// Forgets all windows. The store has them.
    pub fn clear(&self) {
        self.windows.clear();
    }

    fn keep(&self, id: &ConversationId, entry: Entry) {
        self.windows.insert(id.clone(), Arc::new(entry));
    }

    fn forget(&self, id: &ConversationId) {
        self.windows.remove(id);
    }
}

/// Makes a call that removes something of a conversation, and forgets its windows: before, since the call may be left while the
/// store goes on with it, and after, since a load may come in between.
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
        let (entry, asked) = (self.windows.get(id), load.known.clone());
        let kept = entry.as_deref().and_then(|entry| entry.window(&load));
        if let Some(window) = kept {
            load.known = Some(window.known());
        }
        let loaded = self.inner.load(id, load.clone()).await?;
        let window = match (loaded, kept) {
            (Loaded::Unchanged, Some(window)) => window.clone(),
            (Loaded::Window(window), _) => {
                let most = self.windows.shard_capacity() / 100 * SHARE;
                self.keep(id, Entry::loaded(id, entry.as_deref(), &load, window.clone(), most));
                window
            }
            (Loaded::Absent, _) => {
                self.forget(id);
                return Ok(Loaded::Absent);
            }
            (loaded @ (Loaded::Unchanged | Loaded::AlreadyRecorded(_)), _) => return Ok(loaded),
        };
        let is_known = asked.is_some_and(|known| window.is_known(&known));
        Ok(if is_known { Loaded::Unchanged } else { Loaded::Window(window) })
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        if !self.windows.contains_key(id) {
            return self.inner.append(id, append).await;
        }
        let (exchange, compact) = (Arc::new(append.exchange.clone()), append.compact.clone());
        let appended = self.inner.append(id, append).await?;
        if let Some(entry) = self.windows.get(id).filter(|_| !appended.duplicate) {
            match entry.appended(exchange, compact.as_ref(), &appended) {
                Some(entry) => self.keep(id, entry),
                None => self.forget(id),
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
            self.keep(id, entry);
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
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        removing(&self.windows, id, self.inner.truncate(id, expect, from)).await
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
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        removing(&self.windows, id, self.inner.prune(id, incarnation, keep, traces)).await
    }
}

impl<S: fmt::Debug> fmt::Debug for CachedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("inner", &self.inner).field("used", &self.used()).finish_non_exhaustive()
    }
}

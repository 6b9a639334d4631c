//! Conversations in the memory of this process.

mod log;
mod space;

use std::{
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page,
    Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use self::{log::Log, space::Space};

/// Enough that threads rarely meet at the same lock, and few enough to cost nothing in a small store.
const SHARDS: usize = 64;

/// Conversations in the memory of this process, for tests, demos and services that may forget.
///
/// A clone is another handle on the same conversations; they are gone with the last handle. Appends are acknowledged when
/// they are in memory: nothing survives the process, and no other process sees it.
///
/// The store takes memory up to a limit, 256 MiB unless [set](Self::with_limit). An append or a compaction that would
/// exceed it is refused with [`StoreError::Full`]. Nothing is evicted: only [deleting](HistoryStore::delete),
/// [truncating](Truncate) or [pruning](Prune) conversations makes room.
///
/// The memory is estimated, and everything counts: messages and what is copied out of them, the other fields of
/// exchanges, ids, compactions with their summaries and profiles, and the tables that find them. A short exchange takes
/// about 1 KiB. What the allocator hands out to the store is at most 1.25 times the limit; the process may have more
/// from the system, as its allocator keeps what was freed.
///
/// ```
/// use tower_chat_history::{ConversationId, HistoryStoreExt, MemoryStore, Message};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let id = ConversationId::new(["acme", "user-42"])?;
/// store.conversation(&id).import([Message::user("Hi!"), Message::assistant("What's up?")]).await?;
/// assert_eq!(store.clone().conversation(&id).messages().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "InMemoryChatMessageHistory")]
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

/// Each conversation lives in one shard, and everything that is done to it is done under that shard's lock: so every call
/// is one step. The longest of these steps copies a window's pointers; nothing is awaited meanwhile.
struct Shared {
    shards: Vec<Mutex<HashMap<ConversationId, Log>>>,
    hasher: RandomState,
    space: Space,
}

impl MemoryStore {
    /// The limit unless another one is set, in bytes of memory: 256 MiB.
    pub const DEFAULT_LIMIT: usize = 256 << 20;

    /// An empty store with the default limit of [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT).
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// An empty store that takes at most that many bytes of memory, over all conversations, by its estimate.
    /// `usize::MAX` is no limit; a store with a limit of 0 refuses every message.
    #[must_use]
    pub fn with_limit(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shared: Arc::new(Shared { shards, hasher: RandomState::new(), space: Space::new(bytes) }) }
    }

    /// The most bytes of memory that the store takes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.shared.space.limit()
    }

    /// How many bytes of memory the conversations take, by the estimate.
    #[must_use]
    pub fn used(&self) -> usize {
        self.shared.space.used()
    }

    /// The conversations among which this one is.
    fn shard(&self, id: &ConversationId) -> MutexGuard<'_, HashMap<ConversationId, Log>> {
        let shard = self.shared.hasher.hash_one(id) as usize % SHARDS;
        // No step leaves a log half changed, so a lock that was poisoned by a panic is still good.
        self.shared.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a conversation. A table that is mostly empty then is made smaller: its places are not counted any more.
fn remove(shard: &mut HashMap<ConversationId, Log>, id: &ConversationId) -> Option<Log> {
    let removed = shard.remove(id);
    if shard.len() < shard.capacity() / 8 {
        shard.shrink_to(shard.len() * 2);
    }
    removed
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HistoryStore for MemoryStore {
    fn system(&self) -> &'static str {
        "memory"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        Ok(self.shard(id).get(id).map_or(Loaded::Absent, |log| log.load(&load)))
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let space = &self.shared.space;
        let mut shard = self.shard(id);
        if let Some(log) = shard.get_mut(id) {
            return log.append(append, space);
        }
        let (log, appended) = Log::begin(id, append, space)?;
        shard.insert(id.clone(), log);
        Ok(appended)
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.shard(id).get_mut(id).ok_or(StoreError::Gone)?.compact(incarnation, compact, &self.shared.space)
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        Ok(self.shard(id).get(id).map_or_else(Page::absent, |log| log.read(from, limit)))
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        let removed = remove(&mut self.shard(id), id);
        // The lock is free again: dropping a long log takes its time.
        if let Some(log) = removed {
            self.shared.space.give_back(log.bytes());
        }
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Truncate for MemoryStore {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        let (truncated, tail, removed) = {
            let mut shard = self.shard(id);
            let (truncated, tail) = shard.get_mut(id).ok_or(StoreError::Gone)?.truncate(expect, from)?;
            let removed = if truncated.revision.is_none() { remove(&mut shard, id) } else { None };
            (truncated, tail, removed)
        };
        // The lock is free again: dropping a long log takes its time.
        self.shared.space.give_back(tail.bytes() + removed.map_or(0, |log| log.bytes()));
        Ok(truncated)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Prune for MemoryStore {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        let (pruned, head) = self.shard(id).get_mut(id).ok_or(StoreError::Gone)?.prune(incarnation, keep, traces)?;
        // The lock is free again: dropping a long log takes its time.
        self.shared.space.give_back(head.bytes());
        Ok(pruned)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("used", &self.used()).field("limit", &self.limit()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_cross_threads() {
        fn is_handle<T: Clone + Send + Sync + 'static>() {}
        is_handle::<MemoryStore>();
    }

    #[test]
    fn a_poisoned_lock_is_still_good() {
        let store = MemoryStore::new();
        let id = ConversationId::new(["a"]).unwrap();
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _held = store.shard(&id);
            panic!("while the lock is held");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert!(store.shard(&id).is_empty());
    }
}

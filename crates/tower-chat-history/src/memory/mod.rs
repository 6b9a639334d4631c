//! A store in the memory of this process.

mod log;
mod order;

use std::{
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load,
    Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate, Truncated,
};

use self::{
    log::{Log, Space},
    order::Order,
};

/// The number of shards. With 64, threads rarely wait for the same lock, and a small store has little overhead.
const SHARDS: usize = 64;

/// The limit, divided by this number, is the limit on the memory of remembered erasures.
const ERASURES: usize = 16;

/// The largest number of conversations in a page of a listing or an erasure, so that no call takes long.
const PAGE: usize = 256;

/// A store in the memory of this process, for tests, demos, and services whose conversations may be lost.
///
/// A clone shares the conversations. They are dropped with the last clone, or with the process, and no other process
/// can read them.
///
/// The memory has a limit: 256 MiB, unless [another one](Self::with_limit) is set. If an append, a compaction or a fork
/// would exceed it, the store refuses it with [`StoreError::Full`]. Nothing is evicted: only
/// [deleting](HistoryStore::delete), [erasing](tower_chat_history_core::Erase), [truncating](Truncate) or
/// [pruning](Prune) conversations makes room.
///
/// Besides, the store remembers at most 100,000 deletions and erasures. They take at most 1/16 of the limit more. If an
/// older one was forgotten, the store refuses the first turns that began before it, whatever their conversation is.
///
/// The memory is estimated. The estimate includes all data: the JSON of messages and the parsed parts that are copied
/// from it, the other fields of exchanges, ids, compactions with their summaries and profiles, labels, and the tables
/// that contain them. A short exchange takes about 1 KiB. The store allocates at most 1.25 times the limit.
/// Messages of an application's own [dialect](crate::dialect::Dialect) count eight times if they were created without it,
/// for example by an import, because their parsed parts are added later. If tool calls are very short in that dialect,
/// their parsed parts can take more. The process may take more memory from the system, because its allocator may hold
/// freed memory.
///
/// A [fork](Fork) copies no exchange. Both conversations share them, and the estimate counts them in each.
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

/// Each conversation belongs to one shard. Every call for one conversation holds the lock of its shard from beginning
/// to end, so the call is atomic. A fork holds the shards of two conversations: it locks the one with the lower index
/// first. Other calls for several conversations lock the shard of each in turn. No code awaits while it holds a lock.
/// The longest operation under a lock copies the pointers to the exchanges of a window, or those of a log to fork.
///
/// A call that holds a shard may lock the order. A call that holds the order locks nothing else. The order has an id if
/// and only if the shard has its conversation, except within a call that holds the shard.
struct Shared {
    shards: Vec<Mutex<Shard>>,
    order: Mutex<Order>,
    hasher: RandomState,
    space: Space,
}

type Shard = HashMap<ConversationId, Log>;

impl MemoryStore {
    /// The default limit, in bytes of memory: 256 MiB.
    pub const DEFAULT_LIMIT: usize = 256 << 20;

    /// Creates an empty store with the [default limit](Self::DEFAULT_LIMIT).
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// Creates an empty store whose conversations together take at most `bytes` bytes of memory, by its estimate.
    /// `usize::MAX` means no limit. A store with a limit of 0 refuses every message.
    #[must_use]
    pub fn with_limit(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let order = Mutex::new(Order::new(bytes / ERASURES));
        let shared = Shared { shards, order, hasher: RandomState::new(), space: Space::new(bytes) };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the limit, in bytes of memory.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.shared.space.limit()
    }

    /// Returns the estimated memory of all conversations, in bytes.
    #[must_use]
    pub fn used(&self) -> usize {
        self.shared.space.used()
    }

    /// Locks the shard to which this conversation belongs.
    fn shard(&self, id: &ConversationId) -> MutexGuard<'_, Shard> {
        self.shard_at(self.shard_index(id))
    }

    /// Locks the shards of two conversations. The second one is `None` if it is the same as the first.
    fn shards(
        &self,
        one: &ConversationId,
        other: &ConversationId,
    ) -> (MutexGuard<'_, Shard>, Option<MutexGuard<'_, Shard>>) {
        let one = self.shard_index(one);
        let other = self.shard_index(other);
        if one > other {
            let lower = self.shard_at(other);
            return (self.shard_at(one), Some(lower));
        }
        let lower = self.shard_at(one);
        (lower, (one < other).then(|| self.shard_at(other)))
    }

    fn shard_index(&self, id: &ConversationId) -> usize {
        self.shared.hasher.hash_one(id) as usize % SHARDS
    }

    fn shard_at(&self, index: usize) -> MutexGuard<'_, Shard> {
        // No code panics between two changes of a log, so the logs are consistent even if the lock is poisoned.
        self.shared.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the order of the conversations.
    fn order(&self) -> MutexGuard<'_, Order> {
        self.shared.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a conversation from its shard and from the order, and releases its space. It shrinks the table of the
    /// shard if it has become mostly empty: the estimate does not include free slots.
    fn remove(&self, shard: &mut Shard, id: &ConversationId) -> Option<Log> {
        let removed = shard.remove(id)?;
        if shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.len() * 2);
        }
        self.order().remove(id);
        self.shared.space.give_back(removed.bytes());
        Some(removed)
    }

    /// Erases a conversation, if there is one and it is as expected. Returns the numbers of what was removed.
    fn erase_one(&self, id: &ConversationId, expect: impl FnOnce(Revision) -> bool) -> Option<Removed> {
        let log = {
            let mut shard = self.shard(id);
            shard.get(id).filter(|log| expect(log.revision()))?;
            self.remove(&mut shard, id)?
        };
        // The log is dropped after the lock, because dropping a long log takes time.
        Some(log.numbers())
    }
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
        let shard = self.shard(id);
        Ok(shard.get(id).map_or_else(|| Loaded::Absent(self.order().epoch()), |log| log.load(&load)))
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let space = &self.shared.space;
        let mut shard = self.shard(id);
        if let Some(log) = shard.get_mut(id) {
            if append.since.is_some() && !log.has(&append.exchange.id) {
                self.order().check(id, append.since)?;
            }
            return log.append(append, space);
        }

        let mut order = self.order();
        order.check(id, append.since)?;
        let (log, appended) = Log::begin(id, append, space)?;
        order.insert(id.clone());
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
        let removed = {
            let mut shard = self.shard(id);
            let removed = self.remove(&mut shard, id);
            self.order().record_deletion(id);
            removed
        };
        // The log is dropped after the lock, because dropping a long log takes time.
        drop(removed);
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Truncate for MemoryStore {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        let (truncated, tail, removed) = {
            let mut shard = self.shard(id);
            let log = shard.get_mut(id).ok_or(StoreError::Gone)?;
            let (truncated, tail) = log.truncate(expect, from, keep, &self.shared.space)?;
            let removed = if truncated.revision.is_none() { self.remove(&mut shard, id) } else { None };
            if removed.is_some() {
                // As after a deletion, a call that is running cannot begin the conversation again.
                self.order().record_deletion(id);
            }
            (truncated, tail, removed)
        };

        // The exchanges are dropped after the lock, because dropping many of them takes time.
        self.shared.space.give_back(tail.bytes());
        drop(removed);
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
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        let (pruned, head) = self.shard(id).get_mut(id).ok_or(StoreError::Gone)?.prune(incarnation, keep, derived)?;
        // The exchanges are dropped after the lock, because dropping many of them takes time.
        self.shared.space.give_back(head.bytes());
        Ok(pruned)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fork for MemoryStore {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        let (mut shard, mut other) = self.shards(id, &to.id);
        let copies = other.as_deref().unwrap_or(&shard);
        if let Some(existing) = copies.get(&to.id) {
            return existing.result_of_repeat(to.incarnation);
        }
        self.order().check(&to.id, to.since)?;

        // The order is not locked in the meantime, because copying a long log takes time.
        let log = shard.get(id).ok_or(StoreError::Gone)?;
        let Some(copy) = log.fork(incarnation, &to, &self.shared.space)? else { return Ok(Forked::new(None)) };

        let mut order = self.order();
        if let Err(erased) = order.check(&to.id, to.since) {
            self.shared.space.give_back(copy.bytes());
            return Err(erased);
        }
        order.insert(to.id.clone());

        let forked = Forked::new(Some(copy.revision()));
        let copies = other.as_deref_mut().unwrap_or(&mut shard);
        copies.insert(to.id, copy);
        Ok(forked)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl List for MemoryStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let (ids, next) = self.order().page(under, after, limit.min(PAGE));

        let mut conversations = Vec::with_capacity(ids.len());
        for id in ids {
            let shard = self.shard(&id);
            // It may have been deleted in the meantime.
            if let Some(log) = shard.get(&id) {
                conversations.push(log.listed(id.clone()));
            }
        }
        Ok(Listing::new(conversations, next))
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        Ok(self.shard(id).get(id).map(|log| log.listed(id.clone())))
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        let mut shard = self.shard(id);
        shard.get_mut(id).ok_or(StoreError::Gone)?.set_labels(incarnation, replaces, labels, &self.shared.space)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Erase for MemoryStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.order().record(under);
        Ok(())
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let (ids, next) = self.order().page(under, after, limit.min(PAGE));
        let mut removed = Removed::default();
        for id in &ids {
            removed += self.erase_one(id, |_| true).unwrap_or_default();
        }
        Ok(ErasedPage::new(ByStore::of(self.system(), removed), next))
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        Ok(self.erase_one(id, |current| current == revision))
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let mut count = Removed::default();
        let mut after = None;
        loop {
            let (ids, next) = self.order().page(under, after.as_ref(), PAGE);
            for id in &ids {
                if let Some(log) = self.shard(id).get(id) {
                    count += log.numbers();
                }
            }
            if next.is_none() {
                return Ok(ByStore::of(self.system(), count));
            }
            after = next;
            tokio::task::yield_now().await;
        }
    }

    /// Does nothing: the store has no files.
    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        Ok(Scrubbed::default())
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
    fn handles_can_be_sent_to_other_threads() {
        fn is_handle<T: Clone + Send + Sync + 'static>() {}
        is_handle::<MemoryStore>();
    }

    #[test]
    fn a_poisoned_lock_can_be_used() {
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

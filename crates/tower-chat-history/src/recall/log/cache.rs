//! Terms and vectors of exchanges, by conversation, incarnation and position, in bounded memory.

use std::{collections::hash_map::RandomState, fmt, sync::Arc};

use quick_cache::{
    Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tower_chat_history_core::{ConversationId, Incarnation, Prefix, Recorded, Seq};

use crate::recall::passage::Passage;

/// The least bytes of a shard. A cache has up to 64 shards, each with a lock, and keeps no item that is larger than
/// one.
const SHARD_BYTES: usize = 4 << 20;
/// The bytes of an item besides what was made: its key, and its places in the cache's tables.
const AROUND: usize = 160;
/// The fewest items that `quick_cache` gives a shard. It derives the number of shards from that of the items.
const ITEMS_PER_SHARD: usize = 32;
/// The bytes that an exchange counts at most: those of its 128 passages, if they have words of common length.
const MAX_EXCHANGE_BYTES: usize = 256 << 10;

/// The part of a log that is searched, or the part of it that an exchange takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Extent {
    /// Returns what an exchange takes. More messages and bytes than are analyzed count nothing. An exchange without
    /// messages counts as one message, so that a walk over such exchanges ends, too.
    pub(super) fn of(recorded: &Recorded) -> Self {
        let messages = recorded.exchange.messages.len().clamp(1, Passage::MAX_OF_EXCHANGE);
        Self { messages, bytes: recorded.exchange.bytes().min(MAX_EXCHANGE_BYTES) }
    }
}

/// An exchange. A truncation, an erasing prune and a deletion end the incarnation, so nothing that was made before them
/// is found after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    conversation: ConversationId,
    incarnation: Incarnation,
    seq: Seq,
}

/// The terms or the vectors of an exchange.
#[derive(Debug)]
pub(super) struct Entry<T> {
    /// The part of a search's extent that the exchange takes.
    pub(super) extent: Extent,
    pub(super) content: T,
    /// An estimate of the memory of the content, in bytes.
    pub(super) memory: usize,
}

/// The cache. The least recently used items are removed first.
pub(super) struct ExchangeCache<T>(Cache<Key, Arc<Entry<T>>, Memory, RandomState>);

#[derive(Clone, Copy)]
struct Memory;

impl<T> Weighter<Key, Arc<Entry<T>>> for Memory {
    fn weight(&self, key: &Key, made: &Arc<Entry<T>>) -> u64 {
        (AROUND + key.conversation.as_str().len() + made.memory) as u64
    }
}

impl<T> ExchangeCache<T> {
    /// Creates a cache that takes about so many bytes at most.
    pub(super) fn new(bytes: usize) -> Self {
        let shards = 1 << (bytes / SHARD_BYTES).max(1).ilog2().min(6);
        let items = shards * ITEMS_PER_SHARD;
        // Ids come from users, so their hashes are keyed.
        Self(Cache::with(items, bytes as u64, Memory, RandomState::new(), DefaultLifecycle::default()))
    }

    pub(super) fn get(&self, id: &ConversationId, incarnation: Incarnation, seq: Seq) -> Option<Arc<Entry<T>>> {
        self.0.get(&Key { conversation: id.clone(), incarnation, seq })
    }

    /// Adds what was made of an exchange, and returns it.
    pub(super) fn insert(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        seq: Seq,
        made: Entry<T>,
    ) -> Arc<Entry<T>> {
        let made = Arc::new(made);
        self.0.insert(Key { conversation: id.clone(), incarnation, seq }, Arc::clone(&made));
        made
    }

    /// Removes what was made of the conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.0.retain(|key, _| !under.contains(&key.conversation));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> fmt::Debug for ExchangeCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeCache").field("items", &self.0.len()).finish_non_exhaustive()
    }
}

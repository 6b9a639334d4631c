//! Estimates of the memory of a log: of its values and their slots in its tables. All are in bytes.

use tower_chat_history_core::{Compaction, ConversationId, Exchange, ExchangeId, Labels, Profile, Seq};

use super::{Entry, Log};

/// The overhead of an allocated block: the allocator's header, rounding up, and the counters of an `Arc`.
const BLOCK_OVERHEAD: usize = 32;

/// Returns the size of a slot in a hash table, which is at least 3/8 full, including its control byte.
const fn hash_slot(bytes: usize) -> usize {
    (bytes + 1) * 8 / 3
}

/// Returns the size of a conversation before its first exchange: its slots in the store and in the order of ids, its
/// id, and the first blocks of its three tables.
pub(super) fn conversation_bytes(id: &ConversationId) -> usize {
    // The nodes of the order are at least half full, and have nodes above them.
    let slots = hash_slot(size_of::<(ConversationId, Log)>()) + 3 * size_of::<ConversationId>();
    slots + id.as_str().len() + 4 * BLOCK_OVERHEAD + 4 * size_of::<Entry>()
}

/// Returns the size of labels. Their tree has nodes of 11 slots, which are at least half full.
pub(super) fn labels_bytes(labels: &Labels) -> usize {
    let node = 11 * size_of::<(String, String)>() + BLOCK_OVERHEAD;
    labels.len().div_ceil(5) * node + labels.bytes() + labels.len() * 2 * BLOCK_OVERHEAD
}

/// Returns the size of an exchange, including its slots in the list and in the table of ids.
pub(super) fn entry_bytes(exchange: &Exchange) -> usize {
    // A list is at least half full.
    exchange.memory() + 2 * size_of::<Entry>() + hash_slot(size_of::<(ExchangeId, Seq)>())
}

/// Returns the size of a compaction, including its slot in the table of profiles.
pub(super) fn compaction_bytes(profile: &Profile, compaction: &Compaction) -> usize {
    let heap = compaction.memory() - size_of::<Compaction>();
    heap + hash_slot(size_of::<(Profile, Compaction)>()) + profile.as_str().len() + BLOCK_OVERHEAD
}

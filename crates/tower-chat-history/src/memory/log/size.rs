//! What a log takes in memory: what its values take, and their places in its tables.

use tower_chat_history_core::{Compaction, ConversationId, Exchange, ExchangeId, Profile, Seq};

use super::{Entry, Log};

/// What an allocator keeps for a block, and rounds up, in bytes; with the counters of an `Arc`.
const BLOCK: usize = 32;

/// A place in a hash table, which is at least three eighths full, with its control byte.
const fn place(bytes: usize) -> usize {
    (bytes + 1) * 8 / 3
}

/// A conversation before its first exchange: its place in the store, its id, and the first blocks of its three tables.
pub(super) fn of_a_conversation(id: &ConversationId) -> usize {
    place(size_of::<(ConversationId, Log)>()) + id.as_str().len() + 4 * BLOCK + 4 * size_of::<Entry>()
}

/// An exchange, with its places in the list and in the table of ids.
pub(super) fn of_an_entry(exchange: &Exchange) -> usize {
    // A list is at least half full.
    exchange.memory() + 2 * size_of::<Entry>() + place(size_of::<(ExchangeId, Seq)>())
}

/// A compaction, with its place in the table of profiles.
pub(super) fn of_a_compaction(profile: &Profile, compaction: &Compaction) -> usize {
    let beside = compaction.memory() - size_of::<Compaction>();
    beside + place(size_of::<(Profile, Compaction)>()) + profile.as_str().len() + BLOCK
}

//! The memory that kept windows take beside their messages. Estimates, from above.

use std::sync::Arc;

use tower_chat_history_core::{Compaction, ConversationId};

use super::entry::{Entry, Kept};

/// The bytes that an allocator keeps for a block beside its own, and rounds up.
const BLOCK: usize = 16;
/// The two counters of an `Arc`.
const COUNTERS: usize = 2 * size_of::<usize>();

/// Beside its key and its value, `quick_cache` keeps an item's state, and its neighbors in the cache's lists. In bytes.
const STATE: usize = 24;
/// A place in its list of items, of which at least half are taken.
const PLACE: usize = 2 * (size_of::<(ConversationId, Arc<Entry>)>() + STATE);
/// A place in its hash table, which is at least seven sixteenths full: a number and a control byte.
const NUMBER: usize = (size_of::<u32>() + 1) * 16 / 7 + 1;

/// A conversation without windows: its places in the cache, its id, and the block of its entry.
pub(super) fn of_a_conversation(id: &ConversationId) -> usize {
    PLACE + NUMBER + BLOCK + COUNTERS + id.as_str().len() + BLOCK + COUNTERS + size_of::<Entry>()
}

/// The windows of a conversation.
pub(super) fn of_windows(windows: &[Kept]) -> usize {
    of_a_list::<Kept>(windows.len()) + windows.iter().map(Kept::bytes).sum::<usize>()
}

/// The block of a list with that many places; there is none for none.
pub(super) const fn of_a_list<T>(places: usize) -> usize {
    if places == 0 { 0 } else { places.saturating_mul(size_of::<T>()).saturating_add(BLOCK) }
}

/// A text in an `Arc`.
pub(super) fn of_shared_text(text: &str) -> usize {
    text.len() + COUNTERS + BLOCK
}

/// The memory that belongs to a compaction beside its own place.
pub(super) fn beside_a_compaction(compaction: &Compaction) -> usize {
    compaction.memory().saturating_sub(size_of::<Compaction>())
}

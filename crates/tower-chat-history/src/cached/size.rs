//! Estimates of the memory that cached windows take in addition to their messages. All are upper bounds, in bytes.

use std::sync::Arc;

use tower_chat_history_core::{Compaction, ConversationId};

use super::entry::{CachedWindow, Entry};

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

/// Returns the size of a conversation without windows: its slots in the cache, its id, and the block of its entry.
pub(super) fn conversation_bytes(id: &ConversationId) -> usize {
    let id = BLOCK_OVERHEAD + ARC_COUNTERS + id.as_str().len();
    ITEM_SLOT + HASH_SLOT + id + BLOCK_OVERHEAD + ARC_COUNTERS + size_of::<Entry>()
}

/// Returns the size of a conversation's windows.
pub(super) fn windows_bytes(windows: &[CachedWindow]) -> usize {
    list_bytes::<CachedWindow>(windows.len()) + windows.iter().map(CachedWindow::bytes).sum::<usize>()
}

/// Returns the size of a list's block with this capacity. An empty list has no block.
pub(super) const fn list_bytes<T>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { capacity.saturating_mul(size_of::<T>()).saturating_add(BLOCK_OVERHEAD) }
}

/// Returns the size of a text in an `Arc`.
pub(super) fn shared_text_bytes(text: &str) -> usize {
    text.len() + ARC_COUNTERS + BLOCK_OVERHEAD
}

/// Returns the size of a compaction's heap memory.
pub(super) fn compaction_heap_bytes(compaction: &Compaction) -> usize {
    compaction.memory().saturating_sub(size_of::<Compaction>())
}

//! Estimates of what values take in memory, for stores and caches that bound it.

/// What an allocator keeps for a block beside its bytes, and rounds up, in bytes.
const BLOCK: usize = 16;

/// A block of that many bytes; nothing is allocated for none.
pub(crate) const fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.saturating_add(BLOCK) }
}

/// A block in an `Arc`, with its two counters.
pub(crate) const fn shared(bytes: usize) -> usize {
    block(bytes.saturating_add(2 * size_of::<usize>()))
}

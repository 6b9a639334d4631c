//! Estimates of the memory that values take, for stores and caches with a limit.

/// The bytes per allocated block that an allocator uses for bookkeeping and rounding.
const BLOCK: usize = 16;

/// Returns the size of a block of this many bytes. Nothing is allocated for 0 bytes.
pub(crate) const fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.saturating_add(BLOCK) }
}

/// Returns the size of a block in an `Arc`, with its two counters.
pub(crate) const fn shared(bytes: usize) -> usize {
    block(bytes.saturating_add(2 * size_of::<usize>()))
}

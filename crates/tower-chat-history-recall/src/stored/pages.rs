//! The number of exchanges that are read at once.

use tower_chat_history_core::Recorded;

use crate::index::IndexPart;

/// The most exchanges of the first page, whose sizes are not known yet.
const FIRST: u64 = 16;
/// The bytes of a page, if its exchanges are as large as those of the page before it.
const BYTES: usize = 4 << 20;

/// The length of pages: a block, but less if the exchanges are large.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLen(u64);

impl PageLen {
    /// Returns the length of the first page.
    pub(super) const fn first() -> Self {
        Self(FIRST)
    }

    /// Returns the number of exchanges of the next page.
    pub(super) const fn get(self) -> u64 {
        self.0
    }

    /// Adapts the length to the exchanges that were read. Returns their bytes.
    pub(super) fn adapt(&mut self, exchanges: &[Recorded]) -> usize {
        let bytes: usize = exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum();
        let each = (bytes / exchanges.len().max(1)).max(1);
        self.0 = ((BYTES / each) as u64).clamp(1, IndexPart::BLOCK);
        bytes
    }
}

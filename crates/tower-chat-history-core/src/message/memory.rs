//! The memory that a message takes.

use super::{Message, Parsed};
use crate::memory::{block, shared};

impl Message {
    /// Returns an estimate of the memory that this message takes, in bytes: its JSON, the copies in its index
    /// (names, ids, and the arguments of tool calls), and a constant. Clones share this memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        shared(size_of::<Parsed>()) + block(self.bytes()) + self.index().memory()
    }
}

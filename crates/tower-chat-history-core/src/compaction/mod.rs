//! Compactions: derived records that define which part of the log is sent.
//!
//! A store keeps a [`Compaction`] and does not look into it. The writer keeps [`Cuts`] in it.

mod cut;
mod cuts;
mod error;
mod learned;
mod positions;
mod summary;
#[cfg(test)]
mod tests;
mod version;

use std::{fmt, sync::Arc};

pub use self::{
    cut::Cut,
    cuts::Cuts,
    error::CompactionError,
    learned::{LearnedReader, LearnedReaders},
    positions::Positions,
    summary::Summary,
    version::CompactionVersion,
};
use crate::{memory::shared, seq::Seq};

/// A stored compaction of one profile. Stores keep it, and do not look into its bytes.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Compaction {
    /// The version number.
    pub version: CompactionVersion,
    /// The first exchange of the windows that this profile loads. It opens a turn. It may have been
    /// [pruned](crate::Prune): the windows then start where the log begins.
    pub window_start: Seq,
    /// The bytes that the writer keeps about the compaction. They contain no text of messages.
    pub state: Arc<[u8]>,
    /// Text that was made from messages, such as a summary, or `None`.
    pub derived: Option<Arc<[u8]>>,
}

impl Compaction {
    /// Creates the compaction of this version.
    #[must_use]
    pub const fn new(
        version: CompactionVersion,
        window_start: Seq,
        state: Arc<[u8]>,
        derived: Option<Arc<[u8]>>,
    ) -> Self {
        Self { version, window_start, state, derived }
    }

    /// Returns an estimate of the memory that this compaction takes, in bytes: its two fields of bytes and a constant.
    #[must_use]
    pub fn memory(&self) -> usize {
        let derived = self.derived.as_ref().map_or(0, |derived| shared(derived.len()));
        size_of::<Self>() + shared(self.state.len()) + derived
    }

    /// Returns the compaction to store when the log is pruned with [`Derived::Erase`](crate::Derived::Erase), so that it
    /// begins at `first`. It has no derived text. If it had one, its window starts where the log begins. Stores do this
    /// within the prune.
    ///
    /// It always has the next version, so that no compaction made before the prune can replace it.
    #[must_use]
    pub fn without_derived(&self, first: Seq) -> Self {
        let window_start = if self.derived.is_some() { first } else { self.window_start };
        Self::new(self.version.next(), window_start, Arc::clone(&self.state), None)
    }
}

impl fmt::Debug for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compaction")
            .field("version", &self.version)
            .field("window_start", &self.window_start)
            .field("state_bytes", &self.state.len())
            .field("derived_bytes", &self.derived.as_ref().map(|derived| derived.len()))
            .finish()
    }
}

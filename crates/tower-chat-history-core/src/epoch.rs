//! The number of erasures that a caller knows of.

use serde::{Deserialize, Serialize};

/// A point in a store's sequence of erasures. A load that finds no conversation [returns](crate::Loaded::Absent) the
/// current one, and the first turn of a conversation [names](crate::Append::since) it. The store then refuses the turn
/// if the conversation was erased in between.
///
/// An epoch is valid for one store and one conversation. Do not compare epochs of different conversations: a store may
/// count the erasures of several groups of conversations separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of a store that has never erased anything.
    pub const FIRST: Self = Self(0);

    /// Creates the epoch with this number. Stores use it to read back the epoch they wrote.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number to store.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch after one more erasure.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

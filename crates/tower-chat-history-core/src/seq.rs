//! Positions in the log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The position of an exchange in its conversation's log: 0 for the first, without gaps. It does not change when
/// the exchanges before it are [pruned](crate::Prune).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// The position of a log's first exchange.
    pub const FIRST: Self = Self(0);

    /// Creates the position with this index, counted in exchanges from 0.
    #[must_use]
    pub const fn new(index: u64) -> Self {
        Self(index)
    }

    /// Returns the index, counted in exchanges from 0.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

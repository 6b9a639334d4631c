//! Versions of compactions.

use serde::{Deserialize, Serialize};

/// The version number of a profile's stored compaction, or 0 if there is none. Versions can only be compared for
/// equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CompactionVersion(u64);

impl CompactionVersion {
    /// The version if no compaction is stored.
    pub const NONE: Self = Self(0);

    /// Creates the version with this number.
    #[must_use]
    pub const fn new(version: u64) -> Self {
        Self(version)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the version that replaces this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

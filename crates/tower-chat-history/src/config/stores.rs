//! The stores of this crate, as data.

use serde::Deserialize;

use super::number::size;
use crate::{cached::CachedStore, memory::MemoryStore};

/// The settings of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The largest memory of all conversations. The default is [`MemoryStore::DEFAULT_LIMIT`].
    pub limit_bytes: Option<u64>,
}

/// The settings of a [`CachedStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CacheConfig {
    /// The largest memory of the cached windows. The default is 64 MiB.
    pub limit_bytes: Option<u64>,
}

impl MemoryConfig {
    /// Creates the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::with_limit(self.limit_bytes.map_or(MemoryStore::DEFAULT_LIMIT, size))
    }
}

impl CacheConfig {
    /// Creates a cache for this store.
    pub fn build<S>(self, store: S) -> CachedStore<S> {
        CachedStore::with_limit(store, self.limit_bytes.map_or(CachedStore::<S>::DEFAULT_LIMIT, size))
    }
}

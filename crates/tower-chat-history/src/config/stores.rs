//! The stores of this crate, as data.

use serde::Deserialize;
use tower_chat_history_core::config::field;

use crate::{cached::CachedStore, memory::MemoryStore};

/// The settings of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The largest memory of all conversations. The default is [`MemoryStore::DEFAULT_LIMIT`].
    #[serde(deserialize_with = "field::positive")]
    pub limit_bytes: usize,
}

/// The settings of a [`CachedStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CacheConfig {
    /// The largest memory of the cached windows. The default is 64 MiB.
    #[serde(deserialize_with = "field::positive")]
    pub limit_bytes: usize,
}

impl MemoryConfig {
    /// Creates the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::with_limit(self.limit_bytes)
    }
}

impl CacheConfig {
    /// Creates a cache for this store.
    #[must_use]
    pub fn build<S>(self, store: S) -> CachedStore<S> {
        CachedStore::with_limit(store, self.limit_bytes)
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { limit_bytes: MemoryStore::DEFAULT_LIMIT }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { limit_bytes: CachedStore::<MemoryStore>::DEFAULT_LIMIT }
    }
}

//! The stores of this crate, as data.

use serde::Deserialize;
use tower_chat_history_core::config::ConfigError;

use super::number::{positive, size};
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
    ///
    /// # Errors
    ///
    /// Returns an error if the limit is 0.
    pub fn build(self) -> Result<MemoryStore, ConfigError> {
        let limit = self.limit_bytes.unwrap_or(MemoryStore::DEFAULT_LIMIT as u64);
        positive(limit, "limit_bytes")?;
        Ok(MemoryStore::with_limit(size(limit)))
    }
}

impl CacheConfig {
    /// Creates a cache for this store.
    ///
    /// # Errors
    ///
    /// Returns an error if the limit is 0.
    pub fn build<S>(self, store: S) -> Result<CachedStore<S>, ConfigError> {
        let limit = self.limit_bytes.unwrap_or(CachedStore::<S>::DEFAULT_LIMIT as u64);
        positive(limit, "limit_bytes")?;
        Ok(CachedStore::with_limit(store, size(limit)))
    }
}

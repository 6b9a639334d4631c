//! The stores of the engine scenario.

use std::sync::Arc;

use tempfile::TempDir;
use tower_chat_history::{
    CachedStore, Engine, HistoryOptions, HistoryStore, MemoryStore, Retention,
    store::{Erase, Fork, Prune, Truncate},
};
use tower_chat_history_sqlite::SqliteStore;

use crate::{Remote, rng::SeededRng};

/// A store, from which a case opens further handles to read and edit.
pub(super) enum Base {
    Memory(MemoryStore),
    Cached(MemoryStore),
    /// With the directory of its file.
    Sqlite(SqliteStore, #[allow(dead_code)] TempDir),
}

impl Base {
    pub(super) async fn any(rng: &mut SeededRng) -> Self {
        match rng.below(16) {
            0 => {
                let place = tempfile::tempdir().unwrap();
                Self::Sqlite(SqliteStore::open(place.path().join("chat.db")).await.unwrap(), place)
            }
            1..6 => Self::Cached(MemoryStore::new()),
            _ => Self::Memory(MemoryStore::new()),
        }
    }

    /// Creates an engine with its own handle of the store. It prunes only memory stores.
    pub(super) fn engine(&self, options: HistoryOptions, retention: Option<Retention>) -> Engine {
        match (self, retention) {
            (Self::Memory(store), Some(retention)) => Engine::with_retention(store.clone(), options, retention),
            (Self::Memory(store), None) => Engine::with_options(store.clone(), options),
            (Self::Cached(store), Some(retention)) => {
                Engine::with_retention(CachedStore::new(store.clone()), options, retention)
            }
            (Self::Cached(store), None) => Engine::with_options(CachedStore::new(store.clone()), options),
            (Self::Sqlite(store, _), _) => Engine::with_options(Remote(store.clone()), options),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn HistoryStore> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Sqlite(store, _) => Arc::new(store.clone()),
        }
    }

    /// Returns a handle for recall. Like the handle of an engine, it stops a paused clock.
    pub(super) fn for_recall(&self) -> Arc<dyn HistoryStore> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::Cached(store) => Arc::new(CachedStore::new(store.clone())),
            Self::Sqlite(store, _) => Arc::new(Remote(store.clone())),
        }
    }

    pub(super) fn truncate(&self) -> Arc<dyn Truncate> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Sqlite(store, _) => Arc::new(store.clone()),
        }
    }

    pub(super) fn fork(&self) -> Arc<dyn Fork> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Sqlite(store, _) => Arc::new(store.clone()),
        }
    }

    pub(super) fn erase(&self) -> Arc<dyn Erase> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Sqlite(store, _) => Arc::new(store.clone()),
        }
    }

    pub(super) fn prune(&self) -> Arc<dyn Prune> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Sqlite(store, _) => Arc::new(store.clone()),
        }
    }
}

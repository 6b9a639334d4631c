//! `CachedStore`: it passes the conformance suite, and it answers like its inner store, even if others write to
//! that store.

mod erase;
mod failover;
mod interleaved;
mod kept;
mod late;
mod memory;
mod same;
mod support;

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history::{
    CachedStore, HistoryStore, MemoryStore,
    store::{Attach, Erase, Prune, Truncate},
};
use tower_chat_history_core::testing::{Capabilities, Fixture, SharedStore};

/// Each handle has its own cache, like another process.
struct Replicas(MemoryStore);

impl Replicas {
    fn replica(&self) -> CachedStore<MemoryStore> {
        CachedStore::new(self.0.clone())
    }
}

#[async_trait]
impl Fixture for Replicas {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.replica())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.replica()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.replica()))
    }

    async fn open_attach(&self) -> Option<Arc<dyn Attach>> {
        Some(Arc::new(self.replica()))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.replica()))
    }
}

mod between_replicas {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        Replicas(MemoryStore::new()),
        without: [durable]
    }
}

/// All handles share one cache, like the tasks of one process.
mod between_handles {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        SharedStore(CachedStore::new(MemoryStore::new())),
        without: [durable]
    }
}

/// Windows that do not fit are not cached, and everything else works as before.
mod without_room {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        SharedStore(CachedStore::with_limit(MemoryStore::new(), 0)),
        without: [durable]
    }
}

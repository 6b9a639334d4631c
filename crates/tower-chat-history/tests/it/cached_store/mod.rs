//! `CachedStore`: it passes the conformance suite, and it answers like its inner store, even if others write to
//! that store.

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
    store::{Prune, Truncate},
};
use tower_chat_history_core::testing::{Capabilities, Fixture};

/// Opens a handle with this function.
struct Opened<F>(F);

#[async_trait]
impl<F: Fn() -> CachedStore<MemoryStore> + Send + Sync> Fixture for Opened<F> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new((self.0)())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new((self.0)()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new((self.0)()))
    }
}

/// Each handle has its own cache, like another process.
fn replicas() -> impl Fixture {
    let inner_store = MemoryStore::new();
    Opened(move || CachedStore::new(inner_store.clone()))
}

/// All handles share one cache, like the tasks of one process.
fn handles(store: CachedStore<MemoryStore>) -> impl Fixture {
    Opened(move || store.clone())
}

mod between_replicas {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        replicas(),
        without: [durable]
    }
}

mod between_handles {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        handles(CachedStore::new(MemoryStore::new())),
        without: [durable]
    }
}

/// Windows that do not fit are not cached, and everything else works as before.
mod without_room {
    use super::*;

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        handles(CachedStore::with_limit(MemoryStore::new(), 0)),
        without: [durable]
    }
}

//! The conformance suite over encrypted stores.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{
    Attach, Erase, HistoryStore, Prune, Truncate, conformance_tests,
    testing::{Capabilities, Fixture, SharedStore},
};

use crate::support::{TestDatabase, in_memory};

mod memory {
    use super::*;

    conformance_tests! {
        #[tokio::test]
        SharedStore(in_memory()),
        without: [durable]
    }
}

mod cached {
    use tower_chat_history::CachedStore;

    use super::*;

    conformance_tests! {
        #[tokio::test]
        SharedStore(CachedStore::new(in_memory())),
        without: [durable]
    }
}

/// Each handle is a separate store on the same file, with a cache of keys of its own, as in another process.
#[async_trait]
impl Fixture for TestDatabase {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(TestDatabase::open(self).await)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(TestDatabase::open(self).await))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(TestDatabase::open(self).await))
    }

    async fn open_attach(&self) -> Option<Arc<dyn Attach>> {
        Some(Arc::new(TestDatabase::open(self).await))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(TestDatabase::open(self).await))
    }
}

mod sqlite {
    use super::*;

    conformance_tests! {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        TestDatabase::new()
    }
}

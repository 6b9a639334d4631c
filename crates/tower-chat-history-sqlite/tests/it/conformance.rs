//! The conformance suite of all stores.

use std::sync::Arc;

use crate::support::TestDatabase;
use async_trait::async_trait;
use tower_chat_history_conformance::{
    conformance_tests,
    store::{Capabilities, Fixture},
};
use tower_chat_history_core::{Erase, HistoryStore, Prune, Truncate};

/// Each handle is a separate store on the same file, as in another process.
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

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(TestDatabase::open(self).await))
    }
}

conformance_tests! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    TestDatabase::new()
}

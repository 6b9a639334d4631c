//! The contract of all stores.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{
    HistoryStore, Prune, Truncate, conformance_tests,
    testing::{Capabilities, Fixture},
};

use crate::support::Place;

/// Handles are stores of their own on one file, as other processes would have them.
#[async_trait]
impl Fixture for Place {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(Place::open(self).await)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(Place::open(self).await))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(Place::open(self).await))
    }
}

conformance_tests! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    Place::new()
}

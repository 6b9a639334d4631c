//! The contract of all stores.

use std::sync::Arc;

use async_trait::async_trait;
use libtest_mimic::Trial;
use test_servers::postgres;
use tokio::sync::OnceCell;
use tower_chat_history_conformance::store::{Capabilities, Fixture};
use tower_chat_history_core::{Erase, HistoryStore, Prune, Truncate};
use tower_chat_history_postgres::PostgresStore;

use crate::support::patient;

/// Each handle has its own pool on the same database, as another process would.
struct Database {
    url: String,
}

impl Database {
    /// All behaviors share a database: each has its own conversations.
    async fn shared() -> Self {
        static URL: OnceCell<String> = OnceCell::const_new();
        let url = URL.get_or_init(|| async { postgres::shared().database().await }).await.clone();
        Self { url }
    }

    async fn store(&self) -> PostgresStore {
        patient().connections(4).connect(&self.url).await.unwrap()
    }
}

#[async_trait]
impl Fixture for Database {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.store().await)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.store().await))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.store().await))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.store().await))
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    test_servers::conformance("postgres", &[], Database::shared)
}

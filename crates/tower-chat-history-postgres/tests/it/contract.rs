//! The contract of all stores.

use async_trait::async_trait;
use libtest_mimic::Trial;
use test_servers::postgres;
use tokio::sync::OnceCell;
use tower_chat_history_conformance::store::{Fixture, Handle};

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
}

#[async_trait]
impl Fixture for Database {
    async fn open(&self) -> Handle {
        Handle::with_all(patient().connections(4).connect(&self.url).await.unwrap()).durable()
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    test_servers::conformance("postgres", &[], Database::shared)
}

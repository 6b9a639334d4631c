//! The conformance suite of all stores.

use crate::support::TestDatabase;
use async_trait::async_trait;
use tower_chat_history_conformance::{
    conformance_tests,
    store::{Fixture, Handle},
};

/// Each handle is a separate store on the same file, as in another process.
#[async_trait]
impl Fixture for TestDatabase {
    async fn open(&self) -> Handle {
        Handle::with_all(TestDatabase::open(self).await).durable()
    }
}

conformance_tests! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    TestDatabase::new()
}

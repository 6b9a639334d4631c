//! The contract of all stores, with a single server and with a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use libtest_mimic::Trial;
use test_servers::conformance;
use tower_chat_history_conformance::store::{Capabilities, Fixture};
use tower_chat_history_core::{Erase, HistoryStore, Prune, Truncate};
use tower_chat_history_redis::RedisStore;

use crate::support::{cluster, patient, shared};

/// Each handle has its own connection, as another process would.
#[derive(Clone, Copy)]
enum Servers {
    Single,
    Cluster,
}

impl Servers {
    async fn connect(self) -> RedisStore {
        match self {
            Self::Single => patient().connect(shared().url()).await.unwrap(),
            Self::Cluster => patient().connect_cluster(cluster().urls()).await.unwrap(),
        }
    }
}

#[async_trait]
impl Fixture for Servers {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.connect().await)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.connect().await))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.connect().await))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.connect().await))
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = conformance("redis", &[], async || Servers::Single);
    tests.extend(conformance("redis cluster", &[], async || Servers::Cluster));
    tests
}

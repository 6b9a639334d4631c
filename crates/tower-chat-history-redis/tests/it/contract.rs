//! The contract of all stores, with a single server and with a cluster.

use async_trait::async_trait;
use libtest_mimic::Trial;
use test_servers::conformance;
use tower_chat_history_conformance::store::{Fixture, Handle};

use crate::support::{cluster, patient, shared};

/// Each handle has its own connection, as another process would.
#[derive(Clone, Copy)]
enum Servers {
    Single,
    Cluster,
}

#[async_trait]
impl Fixture for Servers {
    async fn open(&self) -> Handle {
        let store = match self {
            Self::Single => patient().connect(shared().url()).await.unwrap(),
            Self::Cluster => patient().connect_cluster(cluster().urls()).await.unwrap(),
        };
        Handle::with_all(store).durable()
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = conformance("redis", &[], async || Servers::Single);
    tests.extend(conformance("redis cluster", &[], async || Servers::Cluster));
    tests
}

//! The conformance suite over encrypted stores. It is a process of its own, because the servers end with it.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use libtest_mimic::Trial;
use tempfile::TempDir;
use test_servers::{cluster::Cluster, conformance, redis};
use tower_chat_history::{
    CachedStore, MemoryStore,
    encryption::{EncryptedStore, KeyRing, Keys, MemoryVault, Secret},
};
use tower_chat_history_conformance::store::{Capability, Fixture, Handle};
use tower_chat_history_core::{Erase, Fork, Prune, Truncate};
use tower_chat_history_redis::RedisOptions;
use tower_chat_history_sqlite::SqliteOptions;

/// The places that hold the sealed items. Each handle has a connection and a cache of keys of its own, as in another
/// process.
#[derive(Clone)]
enum Data {
    File(Arc<TempDir>),
    Cluster,
}

/// The place of a test, and whether each handle has a cache of what it has decrypted.
#[derive(Clone)]
struct Place {
    data: Data,
    cached: bool,
}

/// A store with all abilities.
trait AnyStore: Truncate + Prune + Fork + Erase {}

impl<S: Truncate + Prune + Fork + Erase> AnyStore for S {}

fn keys_of(vault: MemoryVault) -> Keys {
    Keys::new(KeyRing::new("test", Secret::from_bytes(&[1; 32]).unwrap()), vault, 2)
}

/// Returns the keys of the vault that all handles share.
fn keys() -> Keys {
    static VAULT: OnceLock<MemoryVault> = OnceLock::new();
    keys_of(VAULT.get_or_init(MemoryVault::new).clone())
}

impl Data {
    async fn file() -> Self {
        Self::File(Arc::new(tempfile::tempdir().unwrap()))
    }

    async fn connect(&self) -> Arc<dyn AnyStore> {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        // A busy machine may stall a thread for longer than the default timeouts.
        const PATIENCE: Duration = Duration::from_secs(120);
        match self {
            Self::File(directory) => {
                let options = SqliteOptions::new().busy_timeout(PATIENCE);
                let store = options.open(directory.path().join("chat.db")).await.unwrap();
                Arc::new(EncryptedStore::new(store, keys()))
            }
            Self::Cluster => {
                let urls = CLUSTER.get_or_init(Cluster::start).urls();
                let options =
                    RedisOptions::new().response_timeout(PATIENCE).connection_timeout(PATIENCE).retry_for(PATIENCE);
                Arc::new(EncryptedStore::new(options.connect_cluster(urls).await.unwrap(), keys()))
            }
        }
    }
}

#[async_trait]
impl Fixture for Place {
    async fn open(&self) -> Handle {
        let store = self.data.connect().await;
        let handle = if self.cached { Handle::with_all(CachedStore::new(store)) } else { Handle::with_all(store) };
        handle.durable().forks_in_steps().refuses_sealed()
    }
}

/// Returns the suite over a place. An encrypted store refuses exchanges that are sealed already, and forks exchange by
/// exchange.
fn suite(kind: &str, cached: bool, data: impl AsyncFn() -> Data + Copy + Send + Sync + 'static) -> Vec<Trial> {
    conformance(kind, &[Capability::ForkInOneStep, Capability::Sealed], async move || Place {
        data: data().await,
        cached,
    })
}

fn in_memory() -> EncryptedStore<MemoryStore> {
    EncryptedStore::new(MemoryStore::new(), keys_of(MemoryVault::new()))
}

/// Runs the suite over memory and over a file. Over a Redis Cluster it runs with a cache, which makes use of more of
/// the store, because its loads also return only what is new. The other stores are left out, because the wrapper does
/// the same over all of them. Their own suites test that they keep sealed items.
fn main() -> ExitCode {
    let lacking = [Capability::Durable, Capability::ForkInOneStep, Capability::Sealed];
    let memory = conformance("memory", &lacking, async || Handle::with_all(in_memory()));
    let file = suite("file", false, Data::file);
    let cluster = suite("cluster, cached", true, async || Data::Cluster);
    test_servers::run_groups([
        (None, memory.into_iter().chain(file).collect()),
        (Some((redis::NAME, redis::is_available())), cluster),
    ])
}

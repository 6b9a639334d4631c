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
use test_servers::{cluster::Cluster, conformance, postgres, redis};
use tokio::sync::OnceCell;
use tower_chat_history::{CachedStore, MemoryStore};
use tower_chat_history_core::{
    Attach, Erase, HistoryStore, Prune, Truncate,
    testing::{Capabilities, Capability, Fixture, SharedStore},
};
use tower_chat_history_encryption::{EncryptedStore, KeyRing, Keys, MemoryVault, Secret};
use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::SqliteStore;

/// The places that hold the sealed items. Each handle has a connection and a cache of keys of its own, as in another
/// process.
#[derive(Clone)]
enum Data {
    File(Arc<TempDir>),
    Postgres(String),
    Redis,
    Cluster,
}

/// The place of a test, and whether each handle has a cache of what it has decrypted.
#[derive(Clone)]
struct Place {
    data: Data,
    cached: bool,
}

/// A store with all abilities.
trait AnyStore: Truncate + Prune + Attach + Erase {}

impl<S: Truncate + Prune + Attach + Erase> AnyStore for S {}

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

    async fn postgres() -> Self {
        static URL: OnceCell<String> = OnceCell::const_new();
        Self::Postgres(URL.get_or_init(|| async { postgres::shared().database().await }).await.clone())
    }

    async fn connect(&self) -> Arc<dyn AnyStore> {
        static SINGLE: OnceLock<redis::Server> = OnceLock::new();
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        match self {
            Self::File(directory) => {
                let store = SqliteStore::open(directory.path().join("chat.db")).await.unwrap();
                Arc::new(EncryptedStore::new(store, keys()))
            }
            Self::Postgres(url) => {
                let options = PostgresOptions::new().connections(4).pool_timeout(Duration::from_secs(60));
                Arc::new(EncryptedStore::new(options.connect(url).await.unwrap(), keys()))
            }
            Self::Redis => {
                let url = SINGLE.get_or_init(redis::Server::start).url();
                Arc::new(EncryptedStore::new(RedisStore::connect(url).await.unwrap(), keys()))
            }
            Self::Cluster => {
                let urls = CLUSTER.get_or_init(Cluster::start).urls();
                Arc::new(EncryptedStore::new(RedisStore::connect_cluster(urls).await.unwrap(), keys()))
            }
        }
    }
}

impl Place {
    async fn connect(&self) -> Arc<dyn AnyStore> {
        let store = self.data.connect().await;
        if self.cached { Arc::new(CachedStore::new(store)) } else { store }
    }
}

#[async_trait]
impl Fixture for Place {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        self.connect().await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true).refuses_sealed(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(self.connect().await)
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(self.connect().await)
    }

    async fn open_attach(&self) -> Option<Arc<dyn Attach>> {
        Some(self.connect().await)
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(self.connect().await)
    }
}

/// Returns the suite over a place. An encrypted store refuses exchanges that are sealed already.
fn suite(kind: &str, cached: bool, data: impl AsyncFn() -> Data + Copy + Send + Sync + 'static) -> Vec<Trial> {
    conformance(kind, &[Capability::Sealed], async move || Place { data: data().await, cached })
}

fn in_memory() -> EncryptedStore<MemoryStore> {
    EncryptedStore::new(MemoryStore::new(), keys_of(MemoryVault::new()))
}

/// Runs the suite over each store with a cache, which makes use of more of the store: its loads also return only what
/// is new. Without a cache, only the memory store and SQLite are tested, because the wrapper does the same over all
/// stores.
fn main() -> ExitCode {
    let lacking = [Capability::Durable, Capability::Sealed];
    let memory = conformance("memory", &lacking, async || SharedStore(in_memory()));
    let cached_memory = conformance("memory, cached", &lacking, async || SharedStore(CachedStore::new(in_memory())));
    let (file, cached_file) = (suite("file", false, Data::file), suite("file, cached", true, Data::file));
    let postgres = suite("postgres, cached", true, Data::postgres);
    let single = suite("single, cached", true, async || Data::Redis);
    let cluster = suite("cluster, cached", true, async || Data::Cluster);
    test_servers::run_groups([
        (None, [memory, cached_memory, file, cached_file].into_iter().flatten().collect()),
        (Some((redis::NAME, redis::is_available())), single.into_iter().chain(cluster).collect()),
        (Some((postgres::NAME, postgres::is_available())), postgres),
    ])
}

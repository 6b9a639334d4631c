//! The stores that the tests run over.

pub mod patient;
mod remote;
mod remote_erase;

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use tempfile::TempDir;
use test_servers::{cluster::Cluster, left_out, postgres, redis};
use tower_chat_history::encryption::{EncryptedStore, KeyRing, Keys, MemoryVault};
use tower_chat_history::{
    CachedStore, ConversationId, MemoryStore,
    store::{Erase, Fork, Prune, Truncate},
};
use tower_chat_history_test::FaultStore;

pub use self::remote::Remote;
use self::remote::with_clock_held;

/// A master key of tests: a name, and 32 bytes.
pub const MASTER_KEY: &str = "tests dG9ydHVyZSB0b3J0dXJlIHRvcnR1cmUgdG9ydHVyZSE=";

/// Runs each of these functions as a test on each store. To add a store, add a module here.
///
/// The argument of a function is the [`Storage`] that it runs on. If the server of a store is not installed,
/// its tests end at once and pass. The test files [about](test_servers) that server print that it was left
/// out, and fail if `REQUIRE_SERVERS=1` is set.
#[macro_export]
macro_rules! over_every_store {
    (#[$test:meta] $($name:ident),+ $(,)?) => {
        $crate::over_every_store! { @store over_memory, $crate::Storage::memory(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_cached, $crate::Storage::cached(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_encrypted, $crate::Storage::encrypted(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_sqlite, $crate::Storage::sqlite(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_postgres, $crate::Storage::postgres(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_redis, $crate::Storage::redis(), #[$test] $($name)+ }
        $crate::over_every_store! { @store over_cluster, $crate::Storage::cluster(), #[$test] $($name)+ }
    };
    (@store $store:ident, $storage:expr, #[$test:meta] $($name:ident)+) => {
        mod $store {
            $(
                #[$test]
                async fn $name() {
                    let Some(storage) = $storage.await else { return };
                    super::$name(storage).await;
                }
            )+
        }
    };
}

/// A store that can truncate, prune and fork, lists and erases, as all stores of the tests can.
pub trait FullStore: Truncate + Prune + Fork + Erase {}

impl<S: Truncate + Prune + Fork + Erase> FullStore for S {}

/// A store to run a test on. It fails on demand.
pub struct Storage {
    /// The store. Clones share its state.
    pub store: FaultStore<Arc<dyn FullStore>>,
    location: Location,
}

/// The location of a store's data.
#[derive(Clone)]
enum Location {
    Memory(MemoryStore),
    /// In memory, with a cache for each handle.
    Cached(MemoryStore),
    /// Another location, encrypted, with a cache of what was decrypted for each handle.
    Encrypted(Box<Self>, Keys),
    /// A file, in a directory that is removed at the end if this process created it.
    File(PathBuf, #[allow(dead_code)] Option<Arc<TempDir>>),
    /// A schema for this test alone, in a database that the tests of this process share.
    Postgres {
        url: String,
        schema: String,
    },
    /// A key prefix for this test alone, on a server that the tests of this process share.
    Redis {
        url: String,
        prefix: String,
    },
    /// A key prefix for this test alone, in a cluster that the tests of this process share.
    Cluster {
        urls: Vec<String>,
        prefix: String,
    },
}

impl Location {
    async fn open(&self) -> Arc<dyn FullStore> {
        let plain = self.open_plain().await;
        match self {
            Self::Cached(_) => Arc::new(Remote(CachedStore::new(plain))),
            Self::Encrypted(_, keys) => Arc::new(Remote(CachedStore::new(EncryptedStore::new(plain, keys.clone())))),
            _ => Arc::new(Remote(plain)),
        }
    }

    /// Opens the store without wrappers.
    async fn open_plain(&self) -> Arc<dyn FullStore> {
        match self {
            Self::Memory(store) | Self::Cached(store) => Arc::new(store.clone()),
            Self::Encrypted(inner, _) => Box::pin(inner.open_plain()).await,
            Self::File(path, _) => Arc::new(patient::sqlite().open(path).await.unwrap()),
            Self::Postgres { url, schema } => {
                let options = patient::postgres().schema(schema);
                Arc::new(with_clock_held(options.connect(url)).await.unwrap())
            }
            Self::Redis { url, prefix } => {
                let options = patient::redis().prefix(prefix);
                Arc::new(with_clock_held(options.connect(url)).await.unwrap())
            }
            Self::Cluster { urls, prefix } => {
                let options = patient::redis().prefix(prefix);
                Arc::new(with_clock_held(options.connect_cluster(urls)).await.unwrap())
            }
        }
    }
}

impl Storage {
    /// Opens a memory store.
    pub async fn memory() -> Option<Self> {
        Some(Self::at(Location::Memory(MemoryStore::new())).await)
    }

    /// Opens a caching store over a memory store.
    pub async fn cached() -> Option<Self> {
        Some(Self::at(Location::Cached(MemoryStore::new())).await)
    }

    /// Opens a caching store over an encrypted memory store.
    pub async fn encrypted() -> Option<Self> {
        let keys = Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), MemoryVault::new(), 2);
        Some(Self::memory().await?.with_keys(keys).await)
    }

    /// Opens an SQLite store in a new temporary directory.
    pub async fn sqlite() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        Some(Self::at(Location::File(directory.path().join("chat.db"), Some(Arc::new(directory)))).await)
    }

    /// Opens a PostgreSQL store. Returns `None` if the server is not installed.
    pub async fn postgres() -> Option<Self> {
        static URL: OnceLock<String> = OnceLock::new();
        if !postgres::is_available() {
            left_out(postgres::NAME);
            return None;
        }
        let url = URL.get_or_init(|| block_on_new_thread(async || postgres::shared().database().await)).clone();
        Some(Self::at(Location::Postgres { url, schema: unique_name() }).await)
    }

    /// Opens a Redis store. Returns `None` if the server is not installed.
    pub async fn redis() -> Option<Self> {
        static SERVER: OnceLock<redis::Server> = OnceLock::new();
        if !redis::is_available() {
            left_out(redis::NAME);
            return None;
        }
        let url = SERVER.get_or_init(redis::Server::start).url();
        Some(Self::at(Location::Redis { url, prefix: unique_name() }).await)
    }

    /// Opens a store in a Redis Cluster. Returns `None` if the server is not installed.
    pub async fn cluster() -> Option<Self> {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        if !redis::is_available() {
            left_out(redis::NAME);
            return None;
        }
        let urls = CLUSTER.get_or_init(Cluster::start).urls();
        Some(Self::at(Location::Cluster { urls, prefix: unique_name() }).await)
    }

    async fn at(location: Location) -> Self {
        Self { store: FaultStore::new(location.open().await), location }
    }

    /// Opens another handle with its own connections to the same conversations, as another process would.
    pub async fn replica(&self) -> Self {
        Self::at(self.location.clone()).await
    }

    /// Opens another handle to the same data, which encrypts with these keys and caches what it decrypts.
    pub async fn with_keys(&self, keys: Keys) -> Self {
        Self::at(Location::Encrypted(Box::new(self.location.clone()), keys)).await
    }

    /// Returns the address of the data for [`open_address`](Self::open_address), if another process can open it.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        match &self.location {
            Location::Memory(_) | Location::Cached(_) | Location::Encrypted(..) => None,
            Location::File(path, _) => Some(format!("sqlite - {}", path.display())),
            Location::Postgres { url, schema } => Some(format!("postgres {schema} {url}")),
            Location::Redis { url, prefix } => Some(format!("redis {prefix} {url}")),
            Location::Cluster { urls, prefix } => Some(format!("cluster {prefix} {}", urls.join(","))),
        }
    }

    /// Opens the data of another process by its [address](Self::address).
    ///
    /// # Panics
    ///
    /// Panics if the address is not one.
    pub async fn open_address(address: &str) -> Self {
        let mut parts = address.splitn(3, ' ').map(str::to_owned);
        let mut part = || parts.next().unwrap();
        let (store, name, place) = (part(), part(), part());
        Self::at(match store.as_str() {
            "sqlite" => Location::File(place.into(), None),
            "postgres" => Location::Postgres { url: place, schema: name },
            "redis" => Location::Redis { url: place, prefix: name },
            "cluster" => Location::Cluster { urls: place.split(',').map(str::to_owned).collect(), prefix: name },
            other => panic!("an unknown store: {other}"),
        })
        .await
    }

    /// Returns the id of a conversation that no other test or case uses.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        ConversationId::new(["tests", &unique_name()]).unwrap()
    }

    /// Returns the path of the database file, if the store has one, so that a test can damage it.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        match &self.location {
            Location::File(path, _) => Some(path.clone()),
            Location::Memory(_)
            | Location::Cached(_)
            | Location::Encrypted(..)
            | Location::Postgres { .. }
            | Location::Redis { .. }
            | Location::Cluster { .. } => None,
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Returns a name that is unique in this process.
fn unique_name() -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("test{}", NAMES.fetch_add(1, Relaxed))
}

/// Runs a future in a new runtime on a new thread. It can be called within a runtime, where blocking is not
/// allowed.
fn block_on_new_thread<T: Send>(future: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future())
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

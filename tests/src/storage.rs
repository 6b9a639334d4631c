//! The stores that the tests run over.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use async_trait::async_trait;
use tempfile::TempDir;
use test_servers::{cluster::Cluster, left_out, postgres, redis};
use tower_chat_history::{
    CachedStore, ConversationId, HistoryStore, MemoryStore, StoreError,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
};
use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisOptions;
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::FaultStore;

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

/// A store to run a test on. It fails on demand.
pub struct Storage {
    /// The store. Clones share its state.
    pub store: FaultStore<Arc<dyn HistoryStore>>,
    location: Location,
}

/// The location of a store's data.
#[derive(Clone)]
enum Location {
    Memory(MemoryStore),
    /// In memory, with a cache for each handle.
    Cached(MemoryStore),
    File(Arc<TempDir>),
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
    async fn open(&self) -> Arc<dyn HistoryStore> {
        match self {
            Self::Memory(store) => Arc::new(Remote(store.clone())),
            Self::Cached(store) => Arc::new(Remote(CachedStore::new(store.clone()))),
            Self::File(directory) => {
                Arc::new(Remote(SqliteStore::open(directory.path().join("chat.db")).await.unwrap()))
            }
            Self::Postgres { url, schema } => {
                let options = PostgresOptions::new().schema(schema);
                Arc::new(Remote(with_clock_held(options.connect(url)).await.unwrap()))
            }
            Self::Redis { url, prefix } => {
                let options = RedisOptions::new().prefix(prefix);
                Arc::new(Remote(with_clock_held(options.connect(url)).await.unwrap()))
            }
            Self::Cluster { urls, prefix } => {
                let options = RedisOptions::new().prefix(prefix);
                Arc::new(Remote(with_clock_held(options.connect_cluster(urls)).await.unwrap()))
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

    /// Opens an SQLite store in a new temporary directory.
    pub async fn sqlite() -> Option<Self> {
        Some(Self::at(Location::File(Arc::new(tempfile::tempdir().unwrap()))).await)
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

    /// Returns the id of a conversation that no other test or case uses.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        ConversationId::new(["tests", &unique_name()]).unwrap()
    }

    /// Returns the path of the database file, if the store has one, so that a test can damage it.
    #[must_use]
    pub fn file(&self) -> Option<std::path::PathBuf> {
        match &self.location {
            Location::File(directory) => Some(directory.path().join("chat.db")),
            Location::Memory(_)
            | Location::Cached(_)
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

/// A store whose calls take real time, as if over a network.
///
/// A paused clock jumps ahead whenever its runtime is idle, and a runtime that waits for the threads of a
/// store is idle. This wrapper therefore stops the clock while a call runs.
#[derive(Debug)]
pub struct Remote<S>(pub S);

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

async fn with_clock_held<T: Send>(call: impl Future<Output = T> + Send) -> T {
    // A paused clock does not advance while a blocking task runs.
    let (_done, running) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || running.recv());
    tokio::task::yield_now().await;
    let answer = call.await;
    tokio::task::yield_now().await;
    answer
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for Remote<S> {
    fn system(&self) -> &'static str {
        self.0.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        with_clock_held(self.0.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        with_clock_held(self.0.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        with_clock_held(self.0.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        with_clock_held(self.0.read(id, from, limit)).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        with_clock_held(self.0.delete(id)).await
    }
}

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

/// Makes a test of each function, on each store. A new store is one more module here.
///
/// A function takes the [`Storage`] it runs on. Where a store's server is not installed, its tests are over at once; what is left
/// out is printed by the test files that are [about](test_servers) these servers, and is a failure with `REQUIRE_SERVERS=1`.
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

/// A store to run a test on, with faults on demand.
pub struct Storage {
    /// The store. A clone is the same one.
    pub store: FaultStore<Arc<dyn HistoryStore>>,
    place: Place,
}

/// Where a store keeps what it is given.
#[derive(Clone)]
enum Place {
    Memory(MemoryStore),
    /// The same, with a cache for each handle.
    Cached(MemoryStore),
    File(Arc<TempDir>),
    /// A schema of its own in a database that the tests of this process share.
    Postgres {
        url: String,
        schema: String,
    },
    /// A prefix of its own in a server that the tests of this process share.
    Redis {
        url: String,
        prefix: String,
    },
    /// The same in a cluster.
    Cluster {
        urls: Vec<String>,
        prefix: String,
    },
}

impl Place {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        match self {
            Self::Memory(store) => Arc::new(Remote(store.clone())),
            Self::Cached(store) => Arc::new(Remote(CachedStore::new(store.clone()))),
            Self::File(directory) => {
                Arc::new(Remote(SqliteStore::open(directory.path().join("chat.db")).await.unwrap()))
            }
            Self::Postgres { url, schema } => {
                let options = PostgresOptions::new().schema(schema);
                Arc::new(Remote(remotely(options.connect(url)).await.unwrap()))
            }
            Self::Redis { url, prefix } => {
                let options = RedisOptions::new().prefix(prefix);
                Arc::new(Remote(remotely(options.connect(url)).await.unwrap()))
            }
            Self::Cluster { urls, prefix } => {
                let options = RedisOptions::new().prefix(prefix);
                Arc::new(Remote(remotely(options.connect_cluster(urls)).await.unwrap()))
            }
        }
    }
}

impl Storage {
    /// The store in memory.
    pub async fn memory() -> Option<Self> {
        Some(Self::at(Place::Memory(MemoryStore::new())).await)
    }

    /// A store that keeps windows, over the one in memory.
    pub async fn cached() -> Option<Self> {
        Some(Self::at(Place::Cached(MemoryStore::new())).await)
    }

    /// The store in an SQLite file, in a directory of its own.
    pub async fn sqlite() -> Option<Self> {
        Some(Self::at(Place::File(Arc::new(tempfile::tempdir().unwrap()))).await)
    }

    /// The store in PostgreSQL; `None` if the server is not installed.
    pub async fn postgres() -> Option<Self> {
        static URL: OnceLock<String> = OnceLock::new();
        if !postgres::is_there() {
            left_out(postgres::NAME);
            return None;
        }
        let url = URL.get_or_init(|| apart(async || postgres::shared().database().await)).clone();
        Some(Self::at(Place::Postgres { url, schema: unique() }).await)
    }

    /// The store in Redis; `None` if the server is not installed.
    pub async fn redis() -> Option<Self> {
        static SERVER: OnceLock<redis::Server> = OnceLock::new();
        if !redis::is_there() {
            left_out(redis::NAME);
            return None;
        }
        let url = SERVER.get_or_init(redis::Server::start).url();
        Some(Self::at(Place::Redis { url, prefix: unique() }).await)
    }

    /// The store in a Redis Cluster; `None` if the server is not installed.
    pub async fn cluster() -> Option<Self> {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        if !redis::is_there() {
            left_out(redis::NAME);
            return None;
        }
        let urls = CLUSTER.get_or_init(Cluster::start).urls();
        Some(Self::at(Place::Cluster { urls, prefix: unique() }).await)
    }

    async fn at(place: Place) -> Self {
        Self { store: FaultStore::new(place.open().await), place }
    }

    /// Another handle, as another process would have it: with connections of its own, to the same conversations.
    pub async fn replica(&self) -> Self {
        Self::at(self.place.clone()).await
    }

    /// A conversation that no other test or case has.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        ConversationId::new(["tests", &unique()]).unwrap()
    }

    /// The file of a store that has one, to damage it.
    #[must_use]
    pub fn file(&self) -> Option<std::path::PathBuf> {
        match &self.place {
            Place::File(directory) => Some(directory.path().join("chat.db")),
            Place::Memory(_)
            | Place::Cached(_)
            | Place::Postgres { .. }
            | Place::Redis { .. }
            | Place::Cluster { .. } => None,
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A store behind a wire: each call waits before and after it is done, and takes real time.
///
/// A paused clock runs ahead whenever its runtime has nothing else to do, and waiting for a store's threads is nothing else:
/// so the clock is held while a call is under way.
#[derive(Debug)]
pub struct Remote<S>(pub S);

/// A name that nothing else in this process has.
fn unique() -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("test{}", NAMES.fetch_add(1, Relaxed))
}

/// Runs a future in a runtime of its own, on a thread of its own: from within a runtime, where nothing may block.
fn apart<T: Send>(future: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future())
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

async fn remotely<T: Send>(call: impl Future<Output = T> + Send) -> T {
    // A paused clock stands still while a blocking task runs.
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
        remotely(self.0.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        remotely(self.0.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        remotely(self.0.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        remotely(self.0.read(id, from, limit)).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        remotely(self.0.delete(id)).await
    }
}

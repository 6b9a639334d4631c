//! The stores that the tests run over.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
};

use async_trait::async_trait;
use tempfile::TempDir;
use tower_chat_history::{
    Append, Appended, Compact, CompactOutcome, ConversationId, HistoryStore, Incarnation, Load, Loaded, MemoryStore,
    Page, Seq, StoreError,
};
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::FaultStore;

/// Makes a test of each function, on each store. A new store is one more module here.
///
/// A function takes the [`Storage`] it runs on.
#[macro_export]
macro_rules! over_every_store {
    (#[$test:meta] $($name:ident),+ $(,)?) => {
        $crate::over_every_store! { @store memory, $crate::Storage::memory(), #[$test] $($name)+ }
        $crate::over_every_store! { @store sqlite, $crate::Storage::sqlite(), #[$test] $($name)+ }
    };
    (@store $store:ident, $storage:expr, #[$test:meta] $($name:ident)+) => {
        mod $store {
            $(
                #[$test]
                async fn $name() {
                    super::$name($storage.await).await;
                }
            )+
        }
    };
}

/// A store to run a test on, with faults on demand.
pub struct Storage {
    /// The store. A clone is the same one.
    pub store: FaultStore<Arc<dyn HistoryStore>>,
    conversations: AtomicUsize,
    directory: Option<TempDir>,
}

impl Storage {
    /// The store in memory.
    pub async fn memory() -> Self {
        Self::new(MemoryStore::new(), None)
    }

    /// The store in an SQLite file, in a directory of its own.
    pub async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("chat.db")).await.unwrap();
        Self::new(store, Some(directory))
    }

    fn new(store: impl HistoryStore, directory: Option<TempDir>) -> Self {
        let store: Arc<dyn HistoryStore> = Arc::new(Remote(store));
        Self { store: FaultStore::new(store), conversations: AtomicUsize::new(0), directory }
    }

    /// A conversation that no other test or case has.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        let number = self.conversations.fetch_add(1, Relaxed).to_string();
        ConversationId::new(["tests", &number]).unwrap()
    }

    /// The file of a store that has one, to damage it.
    #[must_use]
    pub fn file(&self) -> Option<std::path::PathBuf> {
        self.directory.as_ref().map(|directory| directory.path().join("chat.db"))
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

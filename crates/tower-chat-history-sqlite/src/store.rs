//! The store's handle: it sends calls to the threads and waits for their answers.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use async_trait::async_trait;
use crossbeam_channel::Sender;
use futures_channel::oneshot;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page,
    Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use crate::{
    Closed, OpenError, SqliteOptions, Stats,
    job::{Request, Task},
    options::Settings,
    read::{self, LoadWindow, ReadPage},
    stats::Counters,
    write::{self, AppendExchange, DeleteConversation, PruneLog, StoreCompaction, TruncateLog},
};

/// Conversations in an SQLite file. See the [crate docs](crate).
///
/// A clone is another handle on the same store. When the last one is dropped, the store's threads finish and close the
/// file in the background; [`close`](Self::close) waits for that.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

/// The only senders of both queues: the threads end when it is dropped.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) readers: usize,
    pub(crate) reads: Sender<read::Message>,
    pub(crate) writes: Sender<write::Message>,
    pub(crate) counters: Arc<Counters>,
}

impl SqliteStore {
    /// Opens the file with the default [options](SqliteOptions), and creates it if it is not there. Its directory must
    /// exist.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists: a file that is something else or cannot be opened or written.
    pub async fn open(path: impl AsRef<Path> + Send) -> Result<Self, OpenError> {
        SqliteOptions::new().open(path).await
    }

    pub(crate) async fn start(settings: Settings) -> Result<Self, OpenError> {
        let file = settings.file.clone();
        let opened = write::spawn(settings).map_err(OpenError::Thread)?;
        // The thread always answers, unless it panicked.
        let shared = opened.await.unwrap_or_else(|gone| Err(OpenError::Sqlite { path: file, source: gone.into() }))?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.stats()
    }

    /// Moves all that is in the write-ahead log into the database and empties the log.
    ///
    /// SQLite does so by itself as the log grows, and when the last connection to the file is closed. This is for the time
    /// after a deletion, truncation or prune: until then the log may still hold the deleted text.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](StoreError::Unavailable) when another process is using the file for longer than the busy timeout, or
    /// when SQLite fails, or when the file was [replaced](crate::Replaced).
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let checkpoint = write::Checkpoint { queued: Instant::now(), reply };
        self.shared.writes.send(write::Message::Checkpoint(checkpoint)).map_err(|_| Closed::error())?;
        answer.await.unwrap_or_else(|_| Err(Closed::error()))
    }

    /// Closes the store: the calls that are under way are finished, then the file is closed and the threads end.
    ///
    /// Calls through other clones fail from then on, with [`Closed`] as their source. Closing what is closed is no error.
    ///
    /// # Errors
    ///
    /// When SQLite fails to close the file. All that was acknowledged is stored nevertheless.
    pub async fn close(self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        for _ in 0..self.shared.readers {
            // A reader that is gone needs no message.
            drop(self.shared.reads.send(read::Message::Close));
        }
        if self.shared.writes.send(write::Message::Close(reply)).is_err() {
            return Ok(());
        }
        // No answer: another call closed the store meanwhile.
        answer.await.unwrap_or(Ok(()))
    }

    async fn query<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = read::Message::Job(Box::new(Task::new(request, reply)));
        self.shared.reads.send(job).map_err(|_| Closed::error())?;
        answer.await.unwrap_or_else(|_| Err(Closed::error()))
    }

    async fn write<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = write::Message::Job(Box::new(Task::new(request, reply)));
        self.shared.writes.send(job).map_err(|_| Closed::error())?;
        answer.await.unwrap_or_else(|_| Err(Closed::error()))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HistoryStore for SqliteStore {
    fn system(&self) -> &'static str {
        "sqlite"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.query(LoadWindow { id: id.clone(), load }).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        // Encoding is left to the callers, who are many: the one thread that writes is what all of them wait for.
        self.write(AppendExchange::new(id.clone(), append)?).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.write(StoreCompaction { id: id.clone(), incarnation, compact }).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.query(ReadPage { id: id.clone(), from, limit }).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.write(DeleteConversation { id: id.clone() }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Truncate for SqliteStore {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        self.write(TruncateLog { id: id.clone(), expect, from }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Prune for SqliteStore {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        self.write(PruneLog { id: id.clone(), incarnation, keep, traces }).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_and_calls_cross_threads() {
        fn is_send<T: Send>(_: &T) {}
        fn is_handle<T: Clone + Send + Sync + 'static>() {}
        is_handle::<SqliteStore>();
        is_send(&SqliteStore::open("never-polled.db"));
    }
}

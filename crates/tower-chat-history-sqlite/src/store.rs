//! The store's handle: it opens the store, sends calls to the threads and waits for their answers.

use std::{fmt, path::Path, sync::Arc, time::Instant};

use async_trait::async_trait;
use futures_channel::oneshot;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load,
    Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate, Truncated,
};

use crate::{
    erasures::RecordErasure,
    error::SqliteError,
    job::{ReaderCommand, Request, Shared, Task, Upkeep, UpkeepStep, WriterCommand},
    options::{OpenError, SqliteOptions},
    read::{CountStep, DescribeConversation, ListConversations, LoadWindow, ReadPage, Step},
    stats::Stats,
    write::{
        self, AppendExchange, DeleteConversation, DeleteIf, EraseStep, ForkLog, PruneLog, ReplaceLabels,
        StoreCompaction, TruncateLog,
    },
};

/// The places that [`scrub`](Erase::scrub) cannot clean.
const LEFT_BY_SCRUB: [&str; 2] = [
    "backups and other copies of the file",
    "snapshots and unused blocks of the file system or of the disk, also where SQLite keeps temporary files",
];

/// A store that keeps conversations in a SQLite file. See the [crate docs](crate).
///
/// A clone is another handle on the same store. When the last handle is dropped, the store's threads finish their calls
/// and close the file in the background. [`close`](Self::close) does the same and waits for the end.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

impl SqliteOptions {
    /// Opens the file, and creates it if it does not exist. Its directory must exist.
    ///
    /// The path always names a file, even if it begins with `file:`. A relative path is resolved once, when this method
    /// is called. Changing the current directory later has no effect. Names that end with `-wal`, `-shm` or `-journal`
    /// are refused, because SQLite uses such names for the files next to a database. A symbolic link to such a name is
    /// refused too.
    ///
    /// A refused file is left unchanged, with its write-ahead log and its journal. There is one exception: if another
    /// process uses the database, or if only the log shows that the schema is newer, the index of the log (`-shm`) may
    /// be created or written.
    ///
    /// # Errors
    ///
    /// Returns an [`OpenError`] if an option is out of range, or if the file is not a database of this library, or
    /// cannot be read and written.
    pub async fn open(self, path: impl AsRef<Path> + Send) -> Result<SqliteStore, OpenError> {
        let settings = self.check(path.as_ref().to_owned())?;
        let path = settings.file.clone();
        let opened = write::spawn(settings).map_err(OpenError::Thread)?;

        // The thread always replies, unless it panicked.
        let shared = opened.await.unwrap_or_else(|closed| Err(OpenError::Sqlite { path, source: closed.into() }))?;
        Ok(SqliteStore { shared: Arc::new(shared) })
    }
}

impl SqliteStore {
    /// Opens the file with the default [options](SqliteOptions), and creates it if it does not exist. Its directory
    /// must exist.
    ///
    /// # Errors
    ///
    /// Returns an [`OpenError`] if the file is not a database of this library, or cannot be read and written.
    pub async fn open(path: impl AsRef<Path> + Send) -> Result<Self, OpenError> {
        SqliteOptions::new().open(path).await
    }

    /// Returns the file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns counts of what the store has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.stats()
    }

    /// Moves the content of the write-ahead log into the database and truncates the log to 0 bytes.
    ///
    /// SQLite moves the content by itself when the log grows, and removes the log when the last connection to the file
    /// is closed. Call this method before you copy the file without its log, or to free the space of a large log.
    ///
    /// This method does not remove all copies of deleted text from the database. Use [`scrub`](Erase::scrub) for that.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable`](StoreError::Unavailable) if another process uses the file for longer than the busy
    /// timeout, and [`Backend`](StoreError::Backend) if the file was [replaced](SqliteError::Replaced). Other failures
    /// of SQLite are reported as one of these two errors.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.upkeep(UpkeepStep::Checkpoint).await
    }

    /// Closes the store: finishes the calls that are in progress, closes the file and ends the threads.
    ///
    /// Later calls through other clones fail with [`SqliteError::Closed`] as the source. Closing a closed store
    /// succeeds.
    ///
    /// # Errors
    ///
    /// Returns an error if SQLite fails to close the file. Everything acknowledged is stored nevertheless.
    pub async fn close(self) -> Result<(), StoreError> {
        for _ in 0..self.shared.readers {
            // A send fails only if the readers have ended.
            drop(self.shared.reads.send(ReaderCommand::Close));
        }

        let (reply, answer) = oneshot::channel();
        if self.shared.writes.send(WriterCommand::Close(reply)).is_err() {
            return Ok(());
        }

        // If there is no answer, another call has closed the store.
        answer.await.unwrap_or(Ok(()))
    }

    async fn upkeep(&self, step: UpkeepStep) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let upkeep = Upkeep { step, queued: Instant::now(), reply };
        self.shared.writes.send(WriterCommand::Upkeep(upkeep)).map_err(|_| SqliteError::closed())?;
        answer.await.unwrap_or_else(|_| Err(SqliteError::closed()))
    }

    async fn query<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = ReaderCommand::Job(Box::new(Task::new(request, reply)));
        self.shared.reads.send(job).map_err(|_| SqliteError::closed())?;
        answer.await.unwrap_or_else(|_| Err(SqliteError::closed()))
    }

    async fn write<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = WriterCommand::Job(Box::new(Task::new(request, reply)));
        self.shared.writes.send(job).map_err(|_| SqliteError::closed())?;
        answer.await.unwrap_or_else(|_| Err(SqliteError::closed()))
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
        // The caller encodes, because all callers wait for the one writer thread.
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
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        self.write(TruncateLog { id: id.clone(), expect, from, keep }).await
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
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.write(PruneLog { id: id.clone(), incarnation, keep, derived }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fork for SqliteStore {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        self.write(ForkLog { id: id.clone(), incarnation, to }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl List for SqliteStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.query(ListConversations { under: under.clone(), after: after.cloned(), limit }).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.query(DescribeConversation { id: id.clone() }).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.write(ReplaceLabels { id: id.clone(), incarnation, replaces, labels }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Erase for SqliteStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.write(RecordErasure { under: under.clone() }).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let step = Step { under: under.clone(), after: after.cloned(), limit };
        let (removed, next) = self.write(EraseStep(step)).await?;
        Ok(ErasedPage::new(ByStore::of(self.system(), removed), next))
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.write(DeleteIf { id: id.clone(), revision }).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let mut sum = Removed::default();
        let mut after = None;
        loop {
            // Each step is a call of its own, so that other calls get their turn.
            let step = Step { under: under.clone(), after, limit: usize::MAX };
            let (counted, next) = self.query(CountStep(step)).await?;
            sum += counted;

            if next.is_none() {
                return Ok(ByStore::of(self.system(), sum));
            }
            after = next;
        }
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.upkeep(UpkeepStep::Scrub).await?;
        Ok(Scrubbed::new(["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"], LEFT_BY_SCRUB))
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

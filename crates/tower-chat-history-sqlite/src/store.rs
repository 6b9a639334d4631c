//! The store's handle, which sends calls to the threads and waits for their answers.

use std::{fmt, path::Path, sync::Arc, time::Instant};

use async_trait::async_trait;
use futures_channel::oneshot;
use tower_chat_history_core::{
    Append, Appended, Attach, Attachment, AttachmentKey, AttachmentName, Attachments, Compact, CompactOutcome,
    ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page, Prune, PruneTo, Pruned, Revision, Seq,
    StoreError, Truncate, Truncated,
};

use crate::{
    command::{Checkpoint, ReaderCommand, WriterCommand},
    error::Closed,
    job::{Request, Task},
    read::{LoadWindow, PickExchanges, ReadAttachments, ReadPage},
    shared::Shared,
    stats::Stats,
    write::{AppendExchange, DeleteConversation, PruneLog, StoreAttachments, StoreCompaction, TruncateLog},
};

/// A store that keeps conversations in a SQLite file. See the [crate docs](crate).
///
/// A clone is another handle on the same store. When the last handle is dropped, the store's threads finish their calls
/// and close the file in the background. [`close`](Self::close) does the same and waits for the end.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

impl SqliteStore {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
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

    /// Moves the content of the write-ahead log into the database and empties the log.
    ///
    /// SQLite does this by itself when the log grows and when the last connection to the file is closed. After a
    /// deletion, truncation or prune, the log may contain the deleted text until it is emptied. Call this method if the
    /// text must be erased at once.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable`](StoreError::Unavailable) if another process uses the file for longer than the busy
    /// timeout, and [`Backend`](StoreError::Backend) if the file was [replaced](crate::Replaced). Other failures of
    /// SQLite are reported as one of these two errors.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let checkpoint = Checkpoint { queued: Instant::now(), reply };
        self.shared.writes.send(WriterCommand::Checkpoint(checkpoint)).map_err(|_| Closed::error())?;
        answer.await.unwrap_or_else(|_| Err(Closed::error()))
    }

    /// Closes the store: finishes the calls that are in progress, closes the file and ends the threads.
    ///
    /// Later calls through other clones fail with [`Closed`] as the source. Closing a closed store succeeds.
    ///
    /// # Errors
    ///
    /// Returns an error if SQLite fails to close the file. Everything acknowledged is stored nevertheless.
    pub async fn close(self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        for _ in 0..self.shared.readers {
            // A send fails only if the readers have ended.
            drop(self.shared.reads.send(ReaderCommand::Close));
        }
        if self.shared.writes.send(WriterCommand::Close(reply)).is_err() {
            return Ok(());
        }
        // If there is no answer, another call has closed the store.
        answer.await.unwrap_or(Ok(()))
    }

    async fn query<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = ReaderCommand::Job(Box::new(Task::new(request, reply)));
        self.shared.reads.send(job).map_err(|_| Closed::error())?;
        answer.await.unwrap_or_else(|_| Err(Closed::error()))
    }

    async fn write<Q: Request>(&self, request: Q) -> Result<Q::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = WriterCommand::Job(Box::new(Task::new(request, reply)));
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
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.write(PruneLog { id: id.clone(), incarnation, keep, derived }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Attach for SqliteStore {
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError> {
        // The copies of the attachments share their data.
        let (remove, put) = (remove.to_vec(), put.to_vec());
        self.write(StoreAttachments { id: id.clone(), incarnation, remove, put }).await
    }

    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        self.query(ReadAttachments { id: id.clone(), names: names.to_vec(), limit }).await
    }

    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
        self.query(PickExchanges { id: id.clone(), positions: positions.to_vec() }).await
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

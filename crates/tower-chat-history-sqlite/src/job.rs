//! Calls that run on the threads of the store: the queues to the threads, and the channels for the answers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use crossbeam_channel::Sender;
use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    error::{CallPanic, Failure, is_lock, is_unreadable},
    stats::Counters,
};

/// Sends an answer back to the caller.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

/// The state that all handles of one store share. It holds the only senders of both queues: the threads end when it is
/// dropped.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) readers: usize,
    pub(crate) reads: Sender<ReaderCommand>,
    pub(crate) writes: Sender<WriterCommand>,
    pub(crate) counters: Arc<Counters>,
}

/// A command to the reader threads, which share one queue.
pub(crate) enum ReaderCommand {
    Job(Box<dyn Job>),
    /// Ends the reader that receives it.
    Close,
}

/// A command to the writer thread.
pub(crate) enum WriterCommand {
    Job(Box<dyn Job>),
    Upkeep(Upkeep),
    /// Ends the writer, which then replies.
    Close(ReplySender<()>),
}

/// A call that changes the files and not their content. It runs outside of a transaction.
pub(crate) struct Upkeep {
    pub(crate) step: UpkeepStep,
    pub(crate) queued: Instant,
    pub(crate) reply: ReplySender<()>,
}

/// The kinds of [`Upkeep`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpkeepStep {
    /// Empties the write-ahead log ([`SqliteStore::checkpoint`](crate::SqliteStore::checkpoint)).
    Checkpoint,
    /// Rewrites the database, and then empties the write-ahead log ([`Erase::scrub`](tower_chat_history_core::Erase)).
    Scrub,
}

/// A request to the database. It runs within a transaction that it neither begins nor ends.
pub(crate) trait Request: Send + 'static {
    type Answer: Send;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Self::Answer, Failure>;
}

/// A call: its request, its result once it has run, and the sender of its answer.
pub(crate) trait Job: Send {
    /// Returns `true` if the caller has dropped its future.
    fn is_cancelled(&self) -> bool;

    /// Returns the time when the call was queued.
    fn queued(&self) -> Instant;

    /// Runs the request. A second run replaces the result of the first.
    fn run(&mut self, connection: &Connection, counters: &Counters) -> JobOutcome;

    /// Replaces the result with this error.
    fn fail(&mut self, error: StoreError);

    /// Sends the result. A call that has not run sends none.
    fn answer(self: Box<Self>);
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    /// The request's writes are to be committed.
    Succeeded,
    /// The request's writes are to be rolled back.
    Failed,
    /// Failed because another process holds a lock.
    Locked,
    /// Failed because a page could not be read, or because the file is malformed.
    Unreadable,
}

/// A request as a job.
pub(crate) struct Task<Q: Request> {
    queued: Instant,
    request: Q,
    result: Option<Result<Q::Answer, StoreError>>,
    reply: ReplySender<Q::Answer>,
}

impl<Q: Request> Task<Q> {
    pub(crate) fn new(request: Q, reply: ReplySender<Q::Answer>) -> Self {
        Self { queued: Instant::now(), request, result: None, reply }
    }
}

impl<Q: Request> Job for Task<Q> {
    fn is_cancelled(&self) -> bool {
        self.reply.is_canceled()
    }

    fn queued(&self) -> Instant {
        self.queued
    }

    fn run(&mut self, connection: &Connection, counters: &Counters) -> JobOutcome {
        // A panic ends this call, not the thread, which all calls need. Its writes are rolled back, and a request
        // does not change as it runs, so it is unwind safe.
        let result = catch_unwind(AssertUnwindSafe(|| self.request.run(connection, counters)))
            .unwrap_or_else(|_| Err(StoreError::backend(CallPanic).into()));

        let outcome = match &result {
            Ok(_) => JobOutcome::Succeeded,
            Err(Failure::Sqlite(error)) if is_lock(error) => JobOutcome::Locked,
            Err(Failure::Sqlite(error)) if is_unreadable(error) => JobOutcome::Unreadable,
            Err(Failure::Sqlite(_) | Failure::Store(_)) => JobOutcome::Failed,
        };
        self.result = Some(result.map_err(Into::into));
        outcome
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            // The caller may have dropped its future.
            drop(self.reply.send(result));
        }
    }
}

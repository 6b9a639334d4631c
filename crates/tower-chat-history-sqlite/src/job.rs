//! Calls that run on a thread of the store, and the channels for their answers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    error::{Failure, Panicked, is_lock, is_unreadable},
    stats::Counters,
};

/// Sends an answer back to the caller.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

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
        let run = AssertUnwindSafe(|| self.request.run(connection, counters));
        let (outcome, result) = match catch_unwind(run) {
            Ok(Ok(answer)) => (JobOutcome::Succeeded, Ok(answer)),
            Ok(Err(failure)) => {
                let outcome = match &failure {
                    Failure::Sqlite(error) if is_lock(error) => JobOutcome::Locked,
                    Failure::Sqlite(error) if is_unreadable(error) => JobOutcome::Unreadable,
                    Failure::Sqlite(_) | Failure::Store(_) => JobOutcome::Failed,
                };
                (outcome, Err(failure.into()))
            }
            Err(_) => (JobOutcome::Failed, Err(StoreError::backend(Panicked))),
        };
        self.result = Some(result);
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

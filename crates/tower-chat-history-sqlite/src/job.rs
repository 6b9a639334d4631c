//! Calls on their way to a thread and back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    error::{Failure, Panicked, is_lock, is_unread},
    stats::Counters,
};

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What a call asks for. It runs within a transaction that it neither begins nor ends.
pub(crate) trait Request: Send + 'static {
    type Answer: Send;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Self::Answer, Failure>;
}

/// A call: its request, then its result, and where the answer goes.
pub(crate) trait Job: Send {
    /// Whether nobody waits for the answer any more.
    fn is_cancelled(&self) -> bool;

    /// When it was queued.
    fn queued(&self) -> Instant;

    /// Runs the request. It may be run again: then the first result does not count.
    fn run(&mut self, connection: &Connection, counters: &Counters) -> Ran;

    /// Makes the call fail, whatever came of it.
    fn fail(&mut self, error: StoreError);

    /// Sends the result. A call that has not run is dropped.
    fn answer(self: Box<Self>);
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// What it wrote is to be kept.
    Done,
    /// What it wrote is to be taken back.
    Failed,
    /// The same, because another process holds a lock.
    Locked,
    /// The same, because a page could not be read, or the file is malformed.
    Unread,
}

pub(crate) struct Task<Q: Request> {
    queued: Instant,
    request: Q,
    result: Option<Result<Q::Answer, StoreError>>,
    reply: Reply<Q::Answer>,
}

impl<Q: Request> Task<Q> {
    pub(crate) fn new(request: Q, reply: Reply<Q::Answer>) -> Self {
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

    fn run(&mut self, connection: &Connection, counters: &Counters) -> Ran {
        // A panic ends this call, not the thread that all calls need. What it wrote is rolled back, and a request does
        // not change as it runs.
        let run = AssertUnwindSafe(|| self.request.run(connection, counters));
        let (ran, result) = match catch_unwind(run) {
            Ok(Ok(answer)) => (Ran::Done, Ok(answer)),
            Ok(Err(failure)) => {
                let ran = match &failure {
                    Failure::Sqlite(error) if is_lock(error) => Ran::Locked,
                    Failure::Sqlite(error) if is_unread(error) => Ran::Unread,
                    Failure::Sqlite(_) | Failure::Store(_) => Ran::Failed,
                };
                (ran, Err(failure.into()))
            }
            Err(_) => (Ran::Failed, Err(StoreError::backend(Panicked))),
        };
        self.result = Some(result);
        ran
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            // Nobody may be waiting any more: then the answer is dropped.
            drop(self.reply.send(result));
        }
    }
}

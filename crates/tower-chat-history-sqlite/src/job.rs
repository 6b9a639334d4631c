//! Calls on their way to a thread and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    error::{Failure, Panicked},
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

    /// Runs the request and says whether what it wrote is to be kept.
    fn run(&mut self, connection: &Connection, counters: &Counters) -> bool;

    /// Makes the call fail, whatever came of it.
    fn fail(&mut self, error: StoreError);

    /// Sends the result. A call that has not run is dropped.
    fn answer(self: Box<Self>);
}

pub(crate) struct Task<Q: Request> {
    request: Q,
    result: Option<Result<Q::Answer, StoreError>>,
    reply: Reply<Q::Answer>,
}

impl<Q: Request> Task<Q> {
    pub(crate) const fn new(request: Q, reply: Reply<Q::Answer>) -> Self {
        Self { request, result: None, reply }
    }
}

impl<Q: Request> Job for Task<Q> {
    fn is_cancelled(&self) -> bool {
        self.reply.is_canceled()
    }

    fn run(&mut self, connection: &Connection, counters: &Counters) -> bool {
        // A panic ends this call, not the thread that all calls need. What it wrote is rolled back, and the request is not
        // used again.
        let run = AssertUnwindSafe(|| self.request.run(connection, counters));
        let result =
            catch_unwind(run).map_or_else(|_| Err(StoreError::backend(Panicked)), |ran| ran.map_err(Into::into));
        let keep = result.is_ok();
        self.result = Some(result);
        keep
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

//! Batching of calls that find every connection in use: the next free connection serves them in one statement.
//!
//! Under load, the lookup is the smaller part of a call's cost. The larger part is sending, waking up, parsing,
//! committing and replying, which a batch does once for all its calls. A call that finds a free connection never waits
//! for others.
//!
//! # Decisions
//!
//! - **Calls are batched only when no connection is free.** A turn of 64 tasks on ten connections then costs two fifths
//!   less. Batching every call costs more for single calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::yield_now,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::{Row, types::ToSql};

use super::{
    CALL_TIMEOUT, CallLimits, Database,
    call::Call,
    lease::{Lease, Redacted},
};
use crate::{
    error::{Failure, PostgresError},
    sql::{Sql, Statements},
};

/// The most calls in one batch. The server executes them one after the other.
const MAX_BATCH: usize = 16;

/// A call that can share a statement with others of its kind.
pub(crate) trait Batchable: Send + Sync + Sized + 'static {
    /// `true` if the call changes nothing. Its rows can then be returned before the rest of the batch is done.
    const READS: bool;

    /// Returns the key of the conversation that the call is about.
    fn key(&self) -> &str;
    /// Returns `true` if the call is small enough not to delay the others in a batch.
    fn is_small(&self) -> bool;
    /// Returns the parameters of the single statement, which are also the elements of the arrays of the batched one.
    fn parameters(&self) -> Vec<Parameter<'_>>;
    /// Returns the statements for this kind of call.
    fn statements(sql: &Sql) -> &Statements;
}

/// A parameter of a statement.
pub(crate) type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The calls of one kind that wait for a connection. A clone is another handle on the same queue.
#[derive(Debug)]
pub(crate) struct BatchQueue<Q>(Arc<Mutex<QueueState<Q>>>);

/// The waiters of a queue, and the number of its tasks. There is at least one task for every [`MAX_BATCH`] waiters:
/// joining the queue and ending a task preserve this rule.
#[derive(Debug)]
struct QueueState<Q> {
    waiters: Vec<Waiter<Q>>,
    tasks: usize,
}

#[derive(Debug)]
struct Waiter<Q> {
    request: Arc<Q>,
    /// If it is dropped without a result, the waiting call is made by itself, as a repetition.
    result: oneshot::Sender<Vec<Row>>,
}

/// Runs a call. If a connection is free, the call is run by itself. Otherwise it is run in a batch with other waiting
/// calls.
pub(crate) async fn query_batched<Q: Batchable>(
    database: &Arc<Database>,
    queue: &BatchQueue<Q>,
    request: Q,
    limits: CallLimits,
) -> Result<Vec<Row>, Failure> {
    let request = Arc::new(request);
    if database.is_busy()
        && request.is_small()
        && let Some(rows) = query_in_batch(database, queue, &request, limits.deadline).await?
    {
        return Ok(rows);
    }

    Call::make_within(limits, database, |call| query_alone(call, request)).await
}

/// Runs a call by itself.
async fn query_alone<Q: Batchable>(call: Call, request: Arc<Q>) -> Result<Vec<Row>, Failure> {
    let parameters = request.parameters();
    let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    call.query(&Q::statements(&call.sql).single, &parameters).await
}

/// Waits in the queue for the call's rows. Returns `None` if the call must be made by itself.
async fn query_in_batch<Q: Batchable>(
    database: &Arc<Database>,
    queue: &BatchQueue<Q>,
    request: &Arc<Q>,
    deadline: Instant,
) -> Result<Option<Vec<Row>>, PostgresError> {
    let runtime = Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;
    let (result, mut rows) = oneshot::channel();
    if let Some(task) = BatchTask::join(database, queue, Waiter { request: Arc::clone(request), result }) {
        runtime.spawn(lease_and_run(task));
    }

    let wait = database.pool.timeouts().wait.unwrap_or(CALL_TIMEOUT).min(CALL_TIMEOUT);
    let result = match timeout(wait, &mut rows).await {
        Ok(result) => result,
        // The call has waited for as long as a call may wait for a connection. The task that leases one may belong to
        // the runtime of another caller, and that runtime may have stopped. If a connection is free now, the call is
        // therefore made by itself.
        Err(_) if queue.leave(request) => {
            return if database.is_busy() { Err(PostgresError::PoolTimeout) } else { Ok(None) };
        }
        // The request has been sent.
        Err(_) => timeout_at(deadline, rows).await.map_err(|_| PostgresError::NoAnswer)?,
    };
    Ok(result.ok())
}

/// Waits for a connection, then serves the calls that wait by then.
async fn lease_and_run<Q: Batchable>(task: BatchTask<Q>) {
    let database = Arc::clone(&task.database);
    let lease = loop {
        match database.lease().await {
            Ok(lease) => break Some(lease),
            // Try again while calls are waiting. Those that have waited longest time out at about the same time and
            // leave the queue. A pool that never waits returns this error immediately.
            Err(PostgresError::PoolTimeout) if task.has_waiters() => yield_now().await,
            Err(_) => break None,
        }
    };

    let waiters = task.take();
    if let Some(mut lease) = lease
        && !waiters.is_empty()
    {
        // No call fails because of another one: if the batch fails, each waiter without a result makes its call by
        // itself. If it is unknown whether the batch was committed, a repeated append finds what it stored.
        let _ = timeout(CALL_TIMEOUT, run_batch(&database, &mut lease, waiters)).await;
    }
}

async fn run_batch<Q: Batchable>(
    database: &Database,
    lease: &mut Lease,
    mut waiters: Vec<Waiter<Q>>,
) -> Result<(), PostgresError> {
    // Every batch locks its conversations in the same order, so no two batches deadlock.
    waiters.sort_by(|one, other| one.request.key().cmp(other.request.key()));

    let requests: Vec<Arc<Q>> = waiters.iter().map(|waiter| Arc::clone(&waiter.request)).collect();
    let elements: Vec<Vec<Parameter<'_>>> = requests.iter().map(|request| request.parameters()).collect();

    let statement = &Q::statements(&database.sql).batched;
    let mut arrays: Vec<Vec<Redacted<'_>>> = Vec::with_capacity(statement.types.len());
    for at in 0..statement.types.len() {
        arrays.push(elements.iter().map(|of_one| Redacted(&*of_one[at])).collect());
    }
    let parameters: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as _).collect();

    // If the statement is in an explicit transaction, rows are returned only after the transaction has begun
    // successfully: a standby refuses to begin it.
    let mut results = BatchResults::new(waiters, Q::READS && !database.defaults.differ());
    database.query_each(lease, statement, &parameters, |row| results.add(row)).await?;
    results.finish()
}

/// Splits the rows of a batched statement by waiter. Rows come in the order of the waiters, and the last column of each
/// is the waiter's number.
struct BatchResults<Q> {
    waiters: std::vec::IntoIter<Waiter<Q>>,
    /// The number of the waiter whose rows are being read, counted from one.
    number: i64,
    rows: Vec<Row>,
    /// `true` if a complete result is returned before the other results have arrived.
    at_once: bool,
    held: Vec<(Waiter<Q>, Vec<Row>)>,
    misplaced: bool,
}

impl<Q> BatchResults<Q> {
    fn new(waiters: Vec<Waiter<Q>>, at_once: bool) -> Self {
        Self { waiters: waiters.into_iter(), number: 1, rows: Vec::new(), at_once, held: Vec::new(), misplaced: false }
    }

    fn add(&mut self, row: Row) {
        let number: i64 = row.try_get(row.len() - 1).unwrap_or_default();
        self.misplaced |= number < self.number;
        while !self.misplaced && self.number < number {
            self.misplaced = !self.next();
        }
        self.rows.push(row);
    }

    /// Completes the result of one waiter. Returns `false` if there was no waiter left.
    fn next(&mut self) -> bool {
        self.number += 1;
        let rows = std::mem::take(&mut self.rows);
        let Some(waiter) = self.waiters.next() else { return false };
        if self.at_once {
            waiter.complete(rows);
        } else {
            self.held.push((waiter, rows));
        }
        true
    }

    /// Returns the remaining results. The statement has ended.
    fn finish(mut self) -> Result<(), PostgresError> {
        if self.misplaced {
            return Err(PostgresError::Protocol);
        }
        while self.next() {}
        for (waiter, rows) in self.held {
            waiter.complete(rows);
        }
        Ok(())
    }
}

impl<Q> Waiter<Q> {
    fn complete(self, rows: Vec<Row>) {
        // A caller that has left needs no result.
        let _ = self.result.send(rows);
    }
}

impl<Q> BatchQueue<Q> {
    fn state(&self) -> MutexGuard<'_, QueueState<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a waiter from the queue. Returns `true` if it was still there.
    fn leave(&self, request: &Arc<Q>) -> bool {
        let mut state = self.state();
        let position = state.waiters.iter().position(|waiter| Arc::ptr_eq(&waiter.request, request));
        let waiter = position.map(|position| state.waiters.remove(position));
        drop(state);
        waiter.is_some()
    }
}

impl<Q> Clone for BatchQueue<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q> Default for BatchQueue<Q> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(QueueState { waiters: Vec::new(), tasks: 0 })))
    }
}

/// A task that fetches a connection for the waiters of a queue.
struct BatchTask<Q: Batchable> {
    database: Arc<Database>,
    queue: BatchQueue<Q>,
    ended: bool,
}

impl<Q: Batchable> BatchTask<Q> {
    /// Adds a waiter to the queue. Returns a new task to run if the existing ones do not suffice for it.
    fn join(database: &Arc<Database>, queue: &BatchQueue<Q>, waiter: Waiter<Q>) -> Option<Self> {
        let mut state = queue.state();
        state.waiters.push(waiter);
        if state.waiters.len() <= state.tasks * MAX_BATCH {
            return None;
        }
        state.tasks += 1;
        Some(Self { database: Arc::clone(database), queue: queue.clone(), ended: false })
    }

    fn has_waiters(&self) -> bool {
        !self.queue.state().waiters.is_empty()
    }

    /// Ends the task. Returns the waiters that its connection serves: the oldest ones whose callers are still there.
    fn take(mut self) -> Vec<Waiter<Q>> {
        self.ended = true;
        let mut state = self.queue.state();
        state.tasks -= 1;

        let (mut here, left): (Vec<_>, Vec<_>) = state.waiters.drain(..).partition(|waiter| !waiter.result.is_closed());
        state.waiters = here.split_off(MAX_BATCH.min(here.len()));
        drop(state);
        drop(left);
        here
    }
}

/// If a task is dropped before its end, for example because its runtime shuts down, the remaining tasks may be too few
/// for the waiters. The waiters in excess then make their calls by themselves.
impl<Q: Batchable> Drop for BatchTask<Q> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut state = self.queue.state();
        state.tasks -= 1;
        let covered = state.waiters.len().min(state.tasks * MAX_BATCH);
        let uncovered = state.waiters.split_off(covered);
        drop(state);
        drop(uncovered);
    }
}

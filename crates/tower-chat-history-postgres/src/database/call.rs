//! A call of the store, which runs in its own task and is repeated after transient failures.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_postgres::Pool;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout_at},
};
use tokio_postgres::{Row, types::ToSql};

use super::{CallLimits, Database, TRANSACTION_LIMITS, lease::Lease};
use crate::{
    error::{Failure, PostgresError},
    sql::Statement,
};

/// Planner settings for a transaction of several statements, so that plans suit large tables. Functions are declared
/// with the same settings.
const PLANNER_SETTINGS: &str = "set local enable_seqscan = off; set local enable_bitmapscan = off";

/// The pause before the second repetition. Each further pause is twice as long. The first repetition does not wait.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The limit of [`PostgresOptions::retry_for`](crate::PostgresOptions::retry_for). It leaves the last attempt time to
/// wait for the pool, a connection and a lock before [`CALL_TIMEOUT`](super::CALL_TIMEOUT). The call then returns its
/// own failure, and not only the error that it took too long.
const MAX_RETRY_TIME: Duration = Duration::from_secs(40);

/// A running call: the database, the call's time limits, and a reference that the caller drops when it leaves.
pub(crate) struct Call {
    database: Arc<Database>,
    limits: CallLimits,
    caller: Weak<()>,
}

impl Call {
    /// Runs a call in a task. If the caller leaves, or keeps the future without polling it, the connection still
    /// returns to the pool once the server has responded.
    pub(crate) async fn make<T, F>(database: &Arc<Database>, work: impl FnOnce(Self) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Self::make_within(database.limits(), database, work).await
    }

    /// Runs a call as [`make`](Self::make) does, within limits that began earlier.
    pub(super) async fn make_within<T, F>(
        limits: CallLimits,
        database: &Arc<Database>,
        work: impl FnOnce(Self) -> F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;

        // It is dropped when this future is.
        let here = Arc::new(());
        let call = Self { database: Arc::clone(database), limits, caller: Arc::downgrade(&here) };

        match runtime.spawn(timeout_at(limits.deadline, work(call))).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(PostgresError::NoAnswer.into()),
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(PostgresError::NoRuntime.into()),
        }
    }

    /// Runs a statement as its own transaction, in one round trip. After a transient failure, the statement is
    /// repeated, so it must be safe to run twice.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let mut retry = self.retry();
        loop {
            match self.query_once(statement, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) => retry.again(error, &self.pool).await?,
            }
        }
    }

    async fn query_once(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let mut lease = self.lease().await?;
        let mut rows = Vec::new();
        self.query_each(&mut lease, statement, parameters, |row| rows.push(row)).await?;
        Ok(rows)
    }

    /// Returns the attempts at a transaction of several statements.
    pub(crate) fn attempts(&self, if_unknown: IfUnknown) -> Attempts<'_> {
        Attempts { call: self, retry: self.retry(), if_unknown }
    }

    async fn begin(&self) -> Result<Lease, PostgresError> {
        let mut lease = self.lease().await?;
        lease.begin(&format!("{}; {TRANSACTION_LIMITS}; {PLANNER_SETTINGS}", self.defaults.begin())).await?;
        Ok(lease)
    }

    fn retry(&self) -> Retry {
        Retry::new(self.limits.retry_for)
    }

    async fn lease(&self) -> Result<Lease, PostgresError> {
        let lease = self.database.lease().await?;
        // A caller that left while the call waited no longer wants the connection, and other calls wait for it.
        if self.caller.strong_count() == 0 { Err(PostgresError::PoolTimeout) } else { Ok(lease) }
    }
}

impl Deref for Call {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

/// The attempts at a transaction. After a transient failure, another one is made.
///
/// ```text
/// loop {
///     let mut lease = attempts.begin().await?;
///     let done = work(&mut lease).await;
///     if let Some(done) = attempts.end(lease, done).await? {
///         return Ok(done);
///     }
/// }
/// ```
pub(crate) struct Attempts<'a> {
    call: &'a Call,
    retry: Retry,
    if_unknown: IfUnknown,
}

/// The consequence if it is unknown whether a commit took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfUnknown {
    /// The call fails, because a repetition would report another result.
    Fail,
    /// The transaction is repeated, with the same effect.
    Repeat,
}

impl Attempts<'_> {
    /// Begins a transaction.
    pub(crate) async fn begin(&mut self) -> Result<Lease, PostgresError> {
        loop {
            match self.call.begin().await {
                Ok(lease) => return Ok(lease),
                Err(error) => self.retry.again(error, &self.call.pool).await?,
            }
        }
    }

    /// Commits the transaction if the work succeeded, and rolls it back otherwise. Returns `None` if the work is to be
    /// repeated in another transaction.
    pub(crate) async fn end<T>(&mut self, lease: Lease, done: Result<T, Failure>) -> Result<Option<T>, Failure> {
        let error = match done {
            Ok(done) => match lease.commit().await {
                Ok(()) => return Ok(Some(done)),
                Err(error) if self.if_unknown == IfUnknown::Repeat || error.is_undone() => error,
                Err(error) => return Err(error.into()),
            },
            Err(failure) => {
                lease.rollback().await;
                match failure {
                    Failure::Postgres(error) => error,
                    Failure::Store(error) => return Err(error.into()),
                }
            }
        };

        self.retry.again(error, &self.call.pool).await?;
        Ok(None)
    }
}

/// The repetitions of one call.
pub(crate) struct Retry {
    began: Instant,
    within: Duration,
    repeated: u32,
    prepared_again: bool,
}

impl Retry {
    pub(crate) fn new(within: Duration) -> Self {
        Self { began: Instant::now(), within: within.min(MAX_RETRY_TIME), repeated: 0, prepared_again: false }
    }

    /// Waits until it is time for another attempt. Returns the failure if there is to be none.
    pub(crate) async fn again(&mut self, error: PostgresError, pool: &Pool) -> Result<(), PostgresError> {
        if error.is_stale_statement() && !self.prepared_again {
            self.prepared_again = true;
            // If the statements of one connection are stale, those of all connections most likely are.
            pool.manager().statement_caches.clear();
            return Ok(());
        }

        if !error.is_repeated() {
            return Err(error);
        }
        if self.repeated == 0 {
            // The connection from the pool may have been lost long ago. Another one probably works, or a new one can be
            // made.
            self.repeated = 1;
            return Ok(());
        }

        let pause = FIRST_PAUSE * (1 << (self.repeated - 1).min(6));
        if self.began.elapsed() + pause > self.within {
            return Err(error);
        }
        if error.ends_connection() {
            // After two lost connections in a row, assume that the older ones in the pool are lost as well. They are
            // closed without being tried. Connections made since the call began are kept.
            let began = self.began.into_std();
            drop(pool.retain(|_, metrics| metrics.created > began));
        }

        self.repeated += 1;
        sleep(pause).await;
        Ok(())
    }
}

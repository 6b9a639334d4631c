//! A call of the store, which runs in its own task.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
};

use tokio::{runtime::Handle, time::timeout_at};
use tokio_postgres::{Row, types::ToSql};

use super::{CallLimits, Database, Lease, Retry, TRANSACTION_LIMITS};
use crate::{
    error::{Failure, PostgresError},
    sql::Statement,
};

/// Planner settings for a transaction of several statements, so that plans suit large tables. Functions are declared
/// with the same settings.
const PLANNER_SETTINGS: &str = "set local enable_seqscan = off; set local enable_bitmapscan = off";

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

    pub(crate) fn retry(&self) -> Retry {
        Retry::new(self.limits.retry_for)
    }

    /// Begins a transaction of several statements. It is rolled back unless it is [committed](Lease::commit).
    pub(crate) async fn begin(&self) -> Result<Lease, PostgresError> {
        let mut lease = self.lease().await?;
        lease.begin(&format!("{}; {TRANSACTION_LIMITS}; {PLANNER_SETTINGS}", self.defaults.begin())).await?;
        Ok(lease)
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

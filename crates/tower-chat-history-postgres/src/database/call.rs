//! A call of the store, in a task of its own.

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

/// What else is set in a transaction of a call: plans are to be right for large tables. Functions have it set on them.
const PLANNER_SETTINGS: &str = "set local enable_seqscan = off; set local enable_bitmapscan = off";

/// A call at work: the database, and whether the caller is still there.
pub(crate) struct Call {
    database: Arc<Database>,
    limits: CallLimits,
    caller: Weak<()>,
}

impl Call {
    /// Makes a call in a task: a caller may leave, or keep the future and not poll it, and the connection is back in the pool
    /// all the same when the answer has come.
    pub(crate) async fn make<T, F>(database: &Arc<Database>, work: impl FnOnce(Self) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Self::make_within(database.limits(), database, work).await
    }

    /// The same, for a call that began some time ago.
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

    /// Runs a statement that is a call by itself, and that may be run twice: one round trip, unless something fails.
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
        // Whoever left while this call waited for a connection, or for another try, no longer wants it: others wait too.
        if self.caller.strong_count() == 0 { Err(PostgresError::PoolTimeout) } else { Ok(lease) }
    }
}

impl Deref for Call {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

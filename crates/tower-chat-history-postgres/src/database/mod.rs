//! The connections: which of them a call gets, and what happens when one fails.

mod lease;
mod quiet;
mod retry;

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio_postgres::{Row, types::ToSql};

use self::{lease::Lease, retry::Retry};
use crate::{
    PostgresError,
    error::Failure,
    sql::{Sql, Statement},
};

pub(crate) use self::lease::Lease as Transaction;

/// A pool, and what is asked of it.
pub(crate) struct Database {
    pub(crate) pool: Pool,
    pub(crate) schema: String,
    pub(crate) sql: Sql,
    /// Whether statements are prepared and kept, which needs that a connection is the same server session all the time.
    pub(crate) prepare: bool,
    pub(crate) retry_for: Duration,
}

impl Database {
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
                Err(error) => retry.again(error.into(), &self.pool).await?,
            }
        }
    }

    async fn query_once(
        &self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        self.lease().await?.query(statement, parameters).await
    }

    /// Begins a transaction of several statements. It is rolled back unless it is [committed](Lease::commit).
    pub(crate) async fn begin(&self) -> Result<Transaction, PostgresError> {
        let mut lease = self.lease().await?;
        lease.begin().await?;
        Ok(lease)
    }

    pub(crate) fn retry(&self) -> Retry {
        Retry::new(self.retry_for)
    }

    pub(crate) async fn lease(&self) -> Result<Lease, PostgresError> {
        // The driver panics where there is no runtime: a save may be finished on a thread that has none.
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(PostgresError::NoRuntime);
        }
        Ok(Lease::new(self.pool.get().await?, self.prepare))
    }
}

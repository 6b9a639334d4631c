//! The connections: which of them a call gets, and what happens when one fails.

mod batch;
mod call;
mod lease;
mod redacted;
mod retry;

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::{runtime::Handle, time::Instant};
use tokio_postgres::{Row, types::ToSql};

use self::retry::Retry;
use crate::{
    error::PostgresError,
    sql::{Sql, Statement},
};

pub(crate) use self::{
    batch::{BatchQueue, Batchable, Parameter, query_batched},
    call::Call,
    lease::Lease,
};

/// How long a call, or opening the store, may take. What bounds it before that are limits of the pool, of locks and of the network;
/// this one is for a server that holds its connections and says nothing.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// What is set in a transaction of several statements: names without a schema are PostgreSQL's own, and nobody waits or is waited
/// for without end. Who waits for a lock waits longer than a holder that is frozen may keep it. What is a function by itself has
/// its limit set on it, in `schema/`.
pub(crate) const TRANSACTION_LIMITS: &str = "set local search_path = pg_catalog; set local lock_timeout = '10s'; \
                                 set local idle_in_transaction_session_timeout = '5s'";

/// A pool, and what is asked of it.
pub(crate) struct Database {
    pub(crate) pool: Pool,
    /// Where the server is, if the pool is the store's own: hosts and ports.
    pub(crate) server: Option<String>,
    pub(crate) schema: String,
    /// The role whose schema is used beside those of the current role.
    pub(crate) schema_owner: Option<String>,
    pub(crate) sql: Sql,
    /// Whether statements are prepared and kept, which needs that a connection is the same server session all the time.
    pub(crate) prepare: bool,
    pub(crate) retry_for: Duration,
    pub(crate) defaults: SessionDefaults,
}

/// What the role's or the database's settings make of a transaction. PostgreSQL's own are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionDefaults {
    /// Whether it has another isolation level than "read committed".
    pub(crate) isolated: bool,
    /// Whether it only reads.
    pub(crate) read_only: bool,
}

impl SessionDefaults {
    /// Whether a statement by itself would not do what it does with PostgreSQL's own settings.
    pub(crate) fn differ(self) -> bool {
        self != Self::default()
    }

    /// How a transaction begins. A standby refuses "read write" even where nothing else is wrong.
    pub(crate) const fn begin(self) -> &'static str {
        if self.read_only {
            "begin isolation level read committed read write"
        } else {
            "begin isolation level read committed"
        }
    }
}

/// The time that a call has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// When it must be done.
    deadline: Instant,
    /// For so long it is tried again after failures that may pass.
    retry_for: Duration,
}

impl CallLimits {
    /// The same deadline, for another call in place of one that was repeated for as long as it may be: this one is
    /// repeated once.
    pub(crate) const fn spent(self) -> Self {
        Self { retry_for: Duration::ZERO, ..self }
    }
}

impl Database {
    pub(crate) fn retry(&self) -> Retry {
        Retry::new(self.retry_for)
    }

    /// The limits of a call that begins now.
    pub(crate) fn limits(&self) -> CallLimits {
        CallLimits { deadline: Instant::now() + CALL_TIMEOUT, retry_for: self.retry_for }
    }

    pub(crate) async fn lease(&self) -> Result<Lease, PostgresError> {
        // The driver panics where there is no runtime: a save may be finished on a thread that has none.
        if Handle::try_current().is_err() {
            return Err(PostgresError::NoRuntime);
        }
        let object = self.pool.get().await.map_err(|error| PostgresError::from(error).at(self.server.as_deref()))?;
        Ok(Lease::new(object, self.prepare))
    }

    /// Whether a call would have to wait for a connection.
    pub(crate) fn is_busy(&self) -> bool {
        let pool = self.pool.status();
        pool.available == 0 && pool.size >= pool.max_size
    }

    /// Runs a statement that is a call by itself: one round trip. Its rows come before it is committed.
    pub(crate) async fn query_each(
        &self,
        lease: &mut Lease,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
        each: impl FnMut(Row),
    ) -> Result<(), PostgresError> {
        if self.defaults.differ() {
            lease.query_each_within(self.defaults.begin(), statement, parameters, each).await
        } else {
            lease.query_each(statement, parameters, each).await
        }
    }
}

//! The connections: leasing one, batching, and repeating.

mod batch;
mod call;
mod lease;

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::{runtime::Handle, time::Instant};
use tokio_postgres::{Row, types::ToSql};

pub(crate) use self::{
    batch::{BatchQueue, Batchable, Parameter, query_batched},
    call::{Call, IfUnknown, Retry},
    lease::Lease,
};
use crate::{
    error::PostgresError,
    sql::{Sql, Statement},
};

/// The time limit of a call, and of opening a store.
///
/// The limits of the pool, of locks and of the network usually end a call earlier. This one ends a call to a server
/// that holds its connections open and never responds.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of a transaction of several statements: names without a schema refer to PostgreSQL's own objects, and every
/// wait has a time limit.
///
/// The lock timeout is longer than the time for which a frozen client can hold a lock. Functions have their own lock
/// timeout, which is declared in `schema/`.
pub(crate) const TRANSACTION_LIMITS: &str = "set local search_path = pg_catalog; set local lock_timeout = '10s'; \
                                 set local idle_in_transaction_session_timeout = '5s'";

/// A pool, and the settings of the calls that use it.
pub(crate) struct Database {
    pub(crate) pool: Pool,
    /// The hosts and ports of the server, if the pool is the store's own.
    pub(crate) server: Option<String>,
    pub(crate) schema: String,
    /// The role that is trusted as the schema's owner, in addition to the current role and its groups.
    pub(crate) schema_owner: Option<String>,
    pub(crate) sql: Sql,
    /// `true` if statements are prepared and kept. A connection must then always lead to the same server session.
    pub(crate) prepare: bool,
    pub(crate) retry_for: Duration,
    pub(crate) defaults: SessionDefaults,
}

/// Settings of the role or the database that change a transaction. By default, PostgreSQL sets neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionDefaults {
    /// `true` if the default isolation level is not "read committed".
    pub(crate) isolated: bool,
    /// `true` if transactions are read-only by default.
    pub(crate) read_only: bool,
}

impl SessionDefaults {
    /// Returns `true` if a statement must run in an explicit transaction, to have the same effect as with PostgreSQL's
    /// defaults.
    fn differ(self) -> bool {
        self != Self::default()
    }

    /// Returns the statement that begins a transaction. "read write" is named only if needed: a standby refuses it.
    pub(crate) const fn begin(self) -> &'static str {
        if self.read_only {
            "begin isolation level read committed read write"
        } else {
            "begin isolation level read committed"
        }
    }
}

/// The time limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// The time at which the call fails.
    deadline: Instant,
    /// The time for which the call is repeated after transient failures.
    retry_for: Duration,
}

impl CallLimits {
    /// Returns the limits for a second call, after the first one has used all its repetitions. The deadline is the
    /// same. The second call is repeated at most once.
    pub(crate) const fn spent(self) -> Self {
        Self { retry_for: Duration::ZERO, ..self }
    }
}

impl Database {
    /// Returns the limits of a call that begins now.
    pub(crate) fn limits(&self) -> CallLimits {
        CallLimits { deadline: Instant::now() + CALL_TIMEOUT, retry_for: self.retry_for }
    }

    pub(crate) async fn lease(&self) -> Result<Lease, PostgresError> {
        // The driver panics outside a runtime.
        if Handle::try_current().is_err() {
            return Err(PostgresError::NoRuntime);
        }

        let object = self.pool.get().await.map_err(|error| PostgresError::from(error).at(self.server.as_deref()))?;
        Ok(Lease::new(object, self.prepare))
    }

    /// Returns `true` if a call would have to wait for a connection.
    fn is_busy(&self) -> bool {
        let pool = self.pool.status();
        pool.available == 0 && pool.size >= pool.max_size
    }

    /// Runs a statement as its own transaction, in one round trip. `each` gets the rows before the commit.
    async fn query_each(
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

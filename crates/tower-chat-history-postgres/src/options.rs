//! The options of a store.

use std::time::Duration;

/// Options of a [`PostgresStore`](crate::PostgresStore). The defaults suit most services.
///
/// ```no_run
/// use tower_chat_history_postgres::PostgresOptions;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let options = PostgresOptions::new().schema("support_chat").connections(16);
/// let store = options.connect("postgres://chat@db.internal/app").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(crate) schema: String,
    pub(crate) schema_owner: Option<String>,
    pub(crate) create_schema: bool,
    pub(crate) connections: usize,
    pub(crate) pool_timeout: Duration,
    pub(crate) retry_for: Duration,
    pub(crate) prepare: bool,
}

impl PostgresOptions {
    /// The largest number of connections in the store's own pool. It is the largest `max_connections` of a server.
    pub const MAX_CONNECTIONS: usize = 262_143;

    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "chat_history".into(),
            schema_owner: None,
            create_schema: true,
            connections: 10,
            pool_timeout: Duration::from_secs(5),
            retry_for: Duration::from_secs(1),
            prepare: true,
        }
    }

    /// Sets the schema of all tables and functions. It is [created](Self::create_schema) if it does not exist. The
    /// default is `chat_history`.
    ///
    /// A name has 1 to 63 characters of a-z, 0-9 and _. It does not start with a digit or `pg_`, and is not
    /// `information_schema`.
    ///
    /// An existing schema must belong to the current role, to a role that it is a member of, or to a superuser.
    /// Otherwise, name its owner with [`schema_owner`](Self::schema_owner).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Trusts the role of this name as the owner of the schema, and of the store's tables and functions in it.
    ///
    /// Set it if the schema is created by a role that is neither the application's role nor one of which the
    /// application's role is a member. The default is none.
    ///
    /// The owner is trusted with everything that the application's role may do, in this database and elsewhere on the
    /// server. It may replace the functions in the schema, and these run with the rights of the caller.
    #[must_use]
    pub fn schema_owner(mut self, role: impl Into<String>) -> Self {
        self.schema_owner = Some(role.into());
        self
    }

    /// Creates the schema and the store's tables if they do not exist. If this is `false`,
    /// [`OpenError::NoSchema`](crate::OpenError::NoSchema) is returned instead, so that a mistyped name is noticed. The
    /// default is `true`. The tables of an older version are always migrated.
    #[must_use]
    pub const fn create_schema(mut self, create: bool) -> Self {
        self.create_schema = create;
        self
    }

    /// Sets the largest number of connections in the store's own pool, from 1 to
    /// [`MAX_CONNECTIONS`](Self::MAX_CONNECTIONS). The default is 10.
    ///
    /// Connections are made when they are needed. A few are enough: if none is free, up to 16 loads or appends share a
    /// statement on the next free one.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time limit for waiting for a free connection of the store's own pool. The same limit applies again to
    /// making a new connection. The default is 5 seconds.
    ///
    /// After that time the call fails with [`Unavailable`](tower_chat_history_core::StoreError::Unavailable).
    #[must_use]
    pub const fn pool_timeout(mut self, timeout: Duration) -> Self {
        self.pool_timeout = timeout;
        self
    }

    /// Sets the time for which a call is repeated after transient failures, such as a lost connection, a server that
    /// is starting, or a deadlock. The default is 1 second.
    ///
    /// The first repetition is always made. No repetition begins after 40 seconds. A statement that the server ended
    /// because of a time limit, such as `lock_timeout`, is not repeated.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets whether each connection prepares a statement once and keeps it. The default is `true`.
    ///
    /// Set it to `false` with a pooler that gives each transaction another server connection and does not track
    /// prepared statements, such as PgBouncer before 1.21. Statements are then planned at each call.
    #[must_use]
    pub const fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}

//! Errors of opening a store, and of its calls.

use std::{fmt, io};

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;
use tower_chat_history_core::StoreError;

use crate::options::PostgresOptions;

/// An error of opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is invalid. It is not shown, because it may contain a password.
    #[error("invalid database URL")]
    Url,
    /// The URL requires TLS, and the method connects without it.
    #[error(
        "the URL requires TLS: use connect_rustls (feature rustls of the crate tower-chat-history-postgres) or connect_with"
    )]
    NeedsTls,
    /// The schema's name is invalid.
    #[error(
        "invalid schema name {name:?}: use 1 to 63 characters of a-z, 0-9 and _, not starting with a digit or `pg_`, and \
         not `information_schema`"
    )]
    SchemaName {
        /// The name.
        name: String,
    },
    /// The number of connections is out of range.
    #[error(
        "invalid number of connections {connections}: PostgresOptions::connections takes 1 to {max}",
        max = PostgresOptions::MAX_CONNECTIONS
    )]
    Connections {
        /// The requested number.
        connections: usize,
    },
    /// The database's encoding cannot represent every text.
    #[error("the database's encoding is {encoding}, but the store needs UTF8")]
    Encoding {
        /// The database's encoding.
        encoding: String,
    },
    /// The store's tables do not exist, and the options do not allow to
    /// [create](crate::PostgresOptions::create_schema) them.
    #[error("the schema {schema} has no tables of this library")]
    NoSchema {
        /// The name of the schema.
        schema: String,
    },
    /// A newer version of this library created the tables, and this version cannot use them.
    #[error("schema {schema} has version {found}, but this library supports versions up to {known}")]
    NewerSchema {
        /// The name of the schema.
        schema: String,
        /// The version of the schema.
        found: i32,
        /// The newest version that this library supports.
        known: i32,
    },
    /// The schema has tables with the store's names that this library did not create.
    #[error("the schema has tables that are not this library's: choose another schema with `PostgresOptions::schema`")]
    Foreign,
    /// The schema, or one of the store's tables or functions in it, belongs to a role that is not trusted.
    ///
    /// Trusted are the current role, roles that it is a member of, superusers, and the role named by
    /// [`PostgresOptions::schema_owner`](crate::PostgresOptions::schema_owner).
    #[error(
        "{} schema {schema} belongs to the role {owner}, which is neither the current role nor one that it is a member of \
         (if you trust this role, set PostgresOptions::schema_owner to it)",
        Object(object.as_deref())
    )]
    Owner {
        /// The name of the schema.
        schema: String,
        /// The table or function that belongs to the role. `None` if it is the schema itself.
        object: Option<String>,
        /// The name of the role.
        owner: String,
    },
    /// The system's root certificates cannot be read, or TLS cannot be set up with them.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server requires a password, and the URL or configuration has none.
    #[error("the server requires a password, and none was given")]
    NoPassword,
    /// The connection requires TLS, and the server does not support it.
    #[error("the server does not support TLS")]
    ServerWithoutTls,
    /// The TLS handshake failed. The server's certificate is not trusted or is for another host, or the two sides have
    /// no TLS version in common.
    #[error("the TLS handshake with the server failed: {0}")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Connecting failed, or PostgreSQL returned an error.
    #[error("{} could not be opened: {source}", Database(database.as_deref()))]
    Postgres {
        /// The name of the database, if the store has its own pool and the configuration names it.
        database: Option<String>,
        /// The cause.
        source: PostgresError,
    },
}

struct Object<'a>(Option<&'a str>);

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(object) => write!(f, "{object} of the"),
            None => f.write_str("the"),
        }
    }
}

struct Database<'a>(Option<&'a str>);

impl fmt::Display for Database<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "the database {name}"),
            None => f.write_str("the database"),
        }
    }
}

impl From<PostgresError> for OpenError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::NoPassword => Self::NoPassword,
            PostgresError::ServerWithoutTls => Self::ServerWithoutTls,
            PostgresError::Handshake { source } => Self::Handshake(source),
            source => Self::Postgres { database: None, source },
        }
    }
}

impl OpenError {
    /// Adds the name of the database to a failure that has none.
    pub(crate) fn of(self, name: Option<String>) -> Self {
        match self {
            Self::Postgres { database: None, source } => Self::Postgres { database: name, source },
            error => error,
        }
    }

    /// Returns `true` if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Postgres { source, .. } if source.is_retryable())
    }
}

/// A failure of the database, or of the connection to it. PostgreSQL's messages are left out, because they may quote
/// rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// PostgreSQL returned an error.
    #[error(
        "PostgreSQL failed with SQLSTATE {}{}{}",
        code.code(), Origin(table.as_deref(), constraint.as_deref()), hint(code)
    )]
    Sql {
        /// The SQLSTATE.
        code: SqlState,
        /// The table that the error names.
        table: Option<String>,
        /// The constraint that the error names.
        constraint: Option<String>,
    },
    /// A connection could not be made, or was lost.
    #[error("there is no connection to PostgreSQL{}{}", At(server.as_deref()), Cause(source.as_ref()))]
    Connection {
        /// The hosts and ports that were tried. `None` if an existing connection was lost, or the pool is not the
        /// store's own.
        server: Option<String>,
        /// The cause.
        source: Option<io::Error>,
    },
    /// The server requires a password, and there is none.
    #[error("the server requires a password, and none was given")]
    NoPassword,
    /// The connection requires TLS, and the server does not support it.
    #[error("the server does not support TLS")]
    ServerWithoutTls,
    /// The TLS handshake failed, usually because the server's certificate is not trusted.
    #[error("the TLS handshake with the server failed: {source}")]
    Handshake {
        /// The error of the TLS connector.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The call took longer than a minute. The time includes waiting for a connection, waiting for responses, and the
    /// pauses between attempts.
    #[error("the call took longer than a minute")]
    NoAnswer,
    /// No connection of the pool became free, or could be made, in time.
    #[error("timed out waiting for a pool connection (see `PostgresOptions::connections` and `pool_timeout`)")]
    PoolTimeout,
    /// The pool was closed.
    #[error("the connection pool is closed")]
    PoolClosed,
    /// The call was made outside a tokio runtime, which connections need.
    #[error("the store was called outside a tokio runtime")]
    NoRuntime,
    /// The server's response, or a parameter, has an unexpected type or form.
    #[error("unexpected response from PostgreSQL")]
    Protocol,
}

struct Origin<'a>(Option<&'a str>, Option<&'a str>);

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(_, Some(constraint)) => write!(f, ", constraint {constraint}"),
            Self(Some(table), None) => write!(f, ", table {table}"),
            Self(None, None) => Ok(()),
        }
    }
}

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(server) => write!(f, " at {server}"),
            None => Ok(()),
        }
    }
}

struct Cause<'a>(Option<&'a io::Error>);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// Returns advice that the SQLSTATE alone does not give. PostgreSQL's own message would, but may quote rows.
fn hint(code: &SqlState) -> &'static str {
    if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        ": the server does not know the role, or admits it only with TLS or from another host"
    } else {
        ""
    }
}

/// Transient errors: connections, too many of them, starting and stopping servers, locks, and time limits.
const TRANSIENT: [SqlState; 24] = [
    SqlState::CONNECTION_EXCEPTION,
    SqlState::CONNECTION_DOES_NOT_EXIST,
    SqlState::CONNECTION_FAILURE,
    SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
    SqlState::SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
    SqlState::PROTOCOL_VIOLATION, // Poolers send it when they have lost the server.
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::IDLE_SESSION_TIMEOUT,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::OUT_OF_MEMORY,
    SqlState::INSUFFICIENT_RESOURCES,
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::TRANSACTION_ROLLBACK,
    SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::QUERY_CANCELED,
    SqlState::OBJECT_IN_USE,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::SYSTEM_ERROR,
    SqlState::IO_ERROR,
];

/// `transaction_timeout` of PostgreSQL 17, for which the driver has no constant.
const TRANSACTION_TIMEOUT: &str = "25P04";

impl PostgresError {
    /// Returns `true` if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Sql { code, .. } => TRANSIENT.contains(code) || code.code() == TRANSACTION_TIMEOUT,
            Self::Connection { .. } | Self::PoolTimeout | Self::NoRuntime | Self::NoAnswer => true,
            Self::NoPassword | Self::ServerWithoutTls | Self::Handshake { .. } | Self::PoolClosed | Self::Protocol => {
                false
            }
        }
    }

    /// Adds the server's address to a connection error that has none.
    pub(crate) fn at(self, address: Option<&str>) -> Self {
        match self {
            Self::Connection { server: None, source } => {
                Self::Connection { server: address.map(str::to_owned), source }
            }
            error => error,
        }
    }

    /// Returns `true` if the connection can no longer be used: it is closed, or leads to a server that is read-only.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Sql { code, .. } => {
                code.code().starts_with("57P")
                    || code.code().starts_with("08")
                    || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                    || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                    || code.code() == TRANSACTION_TIMEOUT
            }
            _ => false,
        }
    }

    /// Converts a failure to begin a transaction. A standby reports that "read write" is not supported.
    pub(crate) fn at_begin(error: tokio_postgres::Error) -> Self {
        match Self::from(error) {
            Self::Sql { code, table, constraint } if code == SqlState::FEATURE_NOT_SUPPORTED => {
                Self::Sql { code: SqlState::READ_ONLY_SQL_TRANSACTION, table, constraint }
            }
            error => error,
        }
    }

    /// Returns `true` if the server responded to the statement: the connection works.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Sql { .. } | Self::Protocol)
    }

    /// Returns `true` if a call is repeated after this error.
    pub(crate) fn is_repeated(&self) -> bool {
        let pointless = matches!(self, Self::PoolTimeout | Self::NoRuntime);
        // A lock timeout is not repeated either: the call has used a connection all that time, and other calls wait for
        // one.
        self.is_retryable() && !pointless && !self.is_time_limit()
    }

    /// Returns `true` if the server ended the statement because of a time limit or a request to cancel it.
    fn is_time_limit(&self) -> bool {
        let limits = [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED];
        matches!(self, Self::Sql { code, .. } if limits.contains(code))
    }

    /// Returns `true` if the transaction was certainly rolled back, and may be repeated at once.
    pub(crate) fn is_undone(&self) -> bool {
        let undone = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, Self::Sql { code, .. } if undone.contains(code))
    }

    /// Returns `true` if the server does not know a prepared statement, or knows another one under its name. The cause
    /// is a pooler that has switched the server connection, or a statement that was discarded. Nothing was executed.
    /// Preparing the statement again helps.
    pub(crate) fn is_stale_statement(&self) -> bool {
        // The other two are "prepared statement already exists" and "cached plan must not change result type".
        let stale =
            [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT, SqlState::FEATURE_NOT_SUPPORTED];
        matches!(self, Self::Sql { code, .. } if stale.contains(code))
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(reported) = error.as_db_error() {
            let code = reported.code().clone();
            let table = reported.table().map(str::to_owned);
            let constraint = reported.constraint().map(str::to_owned);
            return Self::Sql { code, table, constraint };
        }

        let is_closed = error.is_closed();
        let kind = error.to_string();
        let Some(source) = error.into_source() else {
            return if is_closed { Self::Connection { server: None, source: None } } else { Self::Protocol };
        };

        match source.downcast::<io::Error>() {
            // This is how rustls reports an error about a certificate. Other I/O errors are the network's.
            Ok(source) if kind == HANDSHAKE && source.kind() == io::ErrorKind::InvalidData => {
                Self::Handshake { source }
            }
            Ok(source) => Self::Connection { server: None, source: Some(*source) },
            Err(source) if kind == HANDSHAKE && source.to_string() == WITHOUT_TLS => Self::ServerWithoutTls,
            Err(source) if kind == HANDSHAKE => Self::Handshake { source },
            Err(source) if source.to_string() == NO_PASSWORD => Self::NoPassword,
            // A value of another type, or a malformed response.
            Err(_) => Self::Protocol,
        }
    }
}

// The driver shows the kind of an error only in its text. Tests with a server check these texts.
const HANDSHAKE: &str = "error performing TLS handshake";
const WITHOUT_TLS: &str = "server does not support TLS";
const NO_PASSWORD: &str = "password missing";

impl From<PoolError> for PostgresError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(TimeoutType::Wait | TimeoutType::Create | TimeoutType::Recycle) => Self::PoolTimeout,
            PoolError::Closed => Self::PoolClosed,
            PoolError::NoRuntimeSpecified => Self::NoRuntime,
            PoolError::PostCreateHook(_) => Self::Connection { server: None, source: None },
        }
    }
}

/// The failure of a call: an error of the store contract, or one of the database.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Postgres(PostgresError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PostgresError> for Failure {
    fn from(error: PostgresError) -> Self {
        Self::Postgres(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Postgres(error) if error.is_retryable() => Self::unavailable(error),
            Failure::Postgres(error) => Self::backend(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(code: SqlState) -> PostgresError {
        PostgresError::Sql { code, table: Some("exchange".into()), constraint: None }
    }

    #[test]
    fn connections_locks_and_limits_are_transient() {
        for code in ["57P01", "57P03", "53300", "40001", "40P01", "55P03", "57014", "08006", "25006", "25P03", "25P04"]
        {
            let error = StoreError::from(Failure::from(sql(SqlState::from_code(code))));
            assert!(error.is_retryable(), "{code}");
        }
        assert!(PostgresError::Connection { server: None, source: None }.is_retryable());
    }

    #[test]
    fn a_transaction_that_took_too_long_has_lost_its_connection() {
        for code in ["25P03", "25P04", "57P05"] {
            assert!(sql(SqlState::from_code(code)).ends_connection(), "{code}");
        }
        assert!(!sql(SqlState::LOCK_NOT_AVAILABLE).ends_connection());
    }

    #[test]
    fn mistakes_and_full_disks_are_not_transient() {
        for code in ["53100", "42P01", "42501", "23505", "28P01", "3D000", "XX001"] {
            let error = StoreError::from(Failure::from(sql(SqlState::from_code(code))));
            assert!(matches!(error, StoreError::Backend { .. }), "{code}");
        }
    }

    #[test]
    fn a_connection_that_is_not_made_names_the_server() {
        let error = PostgresError::Connection { server: None, source: None };
        assert_eq!(
            error.at(Some("db.internal:5432")).to_string(),
            "there is no connection to PostgreSQL at db.internal:5432"
        );
        let unknown = PostgresError::Connection { server: None, source: None };
        assert_eq!(unknown.at(None).to_string(), "there is no connection to PostgreSQL");
    }

    #[test]
    fn an_error_names_the_state_and_the_table() {
        let error = sql(SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.to_string(), "PostgreSQL failed with SQLSTATE 23505, table exchange");
        let unknown = PostgresError::Sql { code: SqlState::from_code("XY123"), table: None, constraint: None };
        assert_eq!(unknown.to_string(), "PostgreSQL failed with SQLSTATE XY123");
        let refused = sql(SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        assert!(refused.to_string().contains("only with TLS"), "{refused}");
    }
}

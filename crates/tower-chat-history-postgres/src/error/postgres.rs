//! What can go wrong with the database, and which of it may pass.

use std::{fmt, io};

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use super::conditions;

/// A failure of the database or of the way to it, without the texts that PostgreSQL sends along: they may quote rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// PostgreSQL refused the statement.
    #[error(
        "PostgreSQL failed with SQLSTATE {}{}{}{}",
        code.code(), Condition(code), Place(table.as_deref(), constraint.as_deref()), hint(code)
    )]
    Sql {
        /// What it says happened.
        code: SqlState,
        /// The table that it names.
        table: Option<String>,
        /// The constraint that it names.
        constraint: Option<String>,
    },
    /// The connection was not made, or was lost.
    #[error("there is no connection to PostgreSQL{}", At(server.as_deref()))]
    Connection {
        /// The hosts and ports that were tried, if the connection was to be made and the store has its own pool.
        server: Option<String>,
        /// What happened.
        source: Option<io::Error>,
    },
    /// The server asks for a password, and there is none.
    #[error("the server asks for a password, and none was given")]
    NoPassword,
    /// TLS was asked for, and the server does not have it.
    #[error("the server does not speak TLS")]
    ServerWithoutTls,
    /// The TLS handshake failed: a certificate that is not trusted, mostly.
    #[error("the TLS handshake with the server failed")]
    Handshake {
        /// What the connector says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The call was not done within a minute. Waiting for a connection, for answers and between tries counts.
    #[error("the call was not done within a minute")]
    NoAnswer,
    /// No connection of the pool was free, or could be made, in time.
    #[error("no connection was had in time")]
    PoolTimeout,
    /// The pool was closed.
    #[error("the connection pool is closed")]
    PoolClosed,
    /// The call was not made in a tokio runtime, which connections need.
    #[error("the store was called outside of a tokio runtime")]
    NoRuntime,
    /// The server's answer, or a parameter, is not what this library expects.
    #[error("PostgreSQL and this library do not understand each other")]
    Protocol,
}

struct Place<'a>(Option<&'a str>, Option<&'a str>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(_, Some(constraint)) => write!(f, ", constraint {constraint}"),
            Self(Some(table), None) => write!(f, ", table {table}"),
            Self(None, None) => Ok(()),
        }
    }
}

struct Condition<'a>(&'a SqlState);

impl fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match conditions::name(self.0.code()) {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
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

/// What a state alone does not say to who has to set the server up. Its own text would, but may quote rows.
fn hint(code: &SqlState) -> &'static str {
    if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        ": it does not know the role, or lets it in only with TLS or from elsewhere"
    } else {
        ""
    }
}

/// What may pass: connections, their number, the server's start and end, locks, and time limits.
const TRANSIENT: [SqlState; 24] = [
    SqlState::CONNECTION_EXCEPTION,
    SqlState::CONNECTION_DOES_NOT_EXIST,
    SqlState::CONNECTION_FAILURE,
    SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
    SqlState::SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION,
    SqlState::PROTOCOL_VIOLATION, // What poolers say when they have lost the server.
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

/// `transaction_timeout`, of PostgreSQL 17: the driver has no name for it.
const TRANSACTION_TIMEOUT: &str = "25P04";

impl PostgresError {
    /// Whether the same call may succeed a little later.
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

    /// The same failure of a connection that was to be made to that server.
    pub(crate) fn at(self, place: Option<&str>) -> Self {
        match self {
            Self::Connection { server: None, source } => Self::Connection { server: place.map(str::to_owned), source },
            error => error,
        }
    }

    /// Whether the connection it came from is of no more use: it is closed, or leads to a server that only reads.
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

    /// What a failure to begin a transaction is. A standby says that it has not the feature "read write".
    pub(crate) fn at_begin(error: tokio_postgres::Error) -> Self {
        match Self::from(error) {
            Self::Sql { code, table, constraint } if code == SqlState::FEATURE_NOT_SUPPORTED => {
                Self::Sql { code: SqlState::READ_ONLY_SQL_TRANSACTION, table, constraint }
            }
            error => error,
        }
    }

    /// Is it the outcome of a statement that reached the server, and not of the way to it?
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Sql { .. } | Self::Protocol)
    }

    /// Is a call made again after it, for as long as that may help?
    pub(crate) fn is_repeated(&self) -> bool {
        let in_vain = matches!(self, Self::PoolTimeout | Self::NoRuntime);
        // Who has waited for a lock as long as is allowed has held a connection meanwhile, which others wait for.
        self.is_retryable() && !in_vain && !self.is_time_limit()
    }

    /// The server could not add or subtract numbers that it found.
    pub(crate) fn is_out_of_range(&self) -> bool {
        matches!(self, Self::Sql { code, .. } if *code == SqlState::NUMERIC_VALUE_OUT_OF_RANGE)
    }

    /// Whether the server ended a statement because of the time that it took, or at somebody's request.
    pub(crate) fn is_time_limit(&self) -> bool {
        let limits = [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED];
        matches!(self, Self::Sql { code, .. } if limits.contains(code))
    }

    /// Whether the transaction that it ended was surely undone, and may be done again at once.
    pub(crate) fn is_undone(&self) -> bool {
        let undone = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        matches!(self, Self::Sql { code, .. } if undone.contains(code))
    }

    /// Whether the server does not know a statement that was prepared, or no longer as it was: a pooler gave the connection
    /// another server, or somebody discarded it. Nothing was done, and preparing it again helps.
    pub(crate) fn is_stale_statement(&self) -> bool {
        // "prepared statement already exists" and "cached plan must not change result type" are the other two.
        let stale =
            [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT, SqlState::FEATURE_NOT_SUPPORTED];
        matches!(self, Self::Sql { code, .. } if stale.contains(code))
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(said) = error.as_db_error() {
            let (table, constraint) = (said.table().map(str::to_owned), said.constraint().map(str::to_owned));
            return Self::Sql { code: said.code().clone(), table, constraint };
        }
        let (closed, kind) = (error.is_closed(), error.to_string());
        let Some(source) = error.into_source() else {
            return if closed { Self::Connection { server: None, source: None } } else { Self::Protocol };
        };
        match source.downcast::<io::Error>() {
            // This is how rustls says what it thinks of a certificate; another error is the network's.
            Ok(source) if kind == HANDSHAKE && source.kind() == io::ErrorKind::InvalidData => {
                Self::Handshake { source }
            }
            Ok(source) => Self::Connection { server: None, source: Some(*source) },
            Err(source) if kind == HANDSHAKE && source.to_string() == WITHOUT_TLS => Self::ServerWithoutTls,
            Err(source) if kind == HANDSHAKE => Self::Handshake { source },
            Err(source) if source.to_string() == NO_PASSWORD => Self::NoPassword,
            // A value of another type, an answer that is none.
            Err(_) => Self::Protocol,
        }
    }
}

// The driver's errors have kinds, but show them in their texts only. Tests with a server hold these.
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

#[cfg(test)]
mod tests {
    use tower_chat_history_core::StoreError;

    use super::*;
    use crate::error::Failure;

    fn sql(code: SqlState) -> PostgresError {
        PostgresError::Sql { code, table: Some("exchange".into()), constraint: None }
    }

    #[test]
    fn connections_locks_and_limits_may_pass() {
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
    fn mistakes_and_full_disks_do_not_pass() {
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
        assert_eq!(error.to_string(), "PostgreSQL failed with SQLSTATE 23505 (unique_violation), table exchange");
        let unknown = PostgresError::Sql { code: SqlState::from_code("XY123"), table: None, constraint: None };
        assert_eq!(unknown.to_string(), "PostgreSQL failed with SQLSTATE XY123");
        let refused = sql(SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        assert!(refused.to_string().contains("only with TLS"), "{refused}");
    }
}

//! Errors of opening a store.

use std::fmt;

use super::PostgresError;
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

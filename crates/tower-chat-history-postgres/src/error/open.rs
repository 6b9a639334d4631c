//! What can go wrong when a store is opened.

use std::fmt;

use super::PostgresError;

/// A store that was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be read. (It is not shown: it may hold a password.)
    #[error("the database's URL cannot be read")]
    Url,
    /// The URL asks for TLS, and the call has none.
    #[error(
        "the URL asks for TLS: use connect_rustls (feature rustls of the crate tower-chat-history-postgres) or connect_with"
    )]
    NeedsTls,
    /// The schema's name cannot be used.
    #[error(
        "invalid schema name {name:?}: use 1 to 63 characters of a-z, 0-9 and _, not starting with a digit or `pg_`, and \
         not `information_schema`"
    )]
    SchemaName {
        /// The name.
        name: String,
    },
    /// The pool is to have no connection, or more than any server has.
    #[error("a pool has 1 to {max} connections, not {asked}", max = crate::options::PostgresOptions::MAX_CONNECTIONS)]
    Connections {
        /// How many were asked for.
        asked: usize,
    },
    /// The database's encoding cannot hold every text.
    #[error("the database's encoding is {encoding}, and the store needs UTF8")]
    Encoding {
        /// Its encoding.
        encoding: String,
    },
    /// The tables were made by a newer version of this library.
    #[error("the schema has version {found}, and this library knows up to {known}")]
    NewerSchema {
        /// The schema's version.
        found: i32,
        /// The newest version this library knows.
        known: i32,
    },
    /// The schema has tables of these names, but not this library's list of versions: it is another application's.
    #[error("the schema is not empty, and not this library's")]
    Foreign,
    /// The schema, or a table or a function of the store in it, belongs to a role that is not trusted: it is neither
    /// the current role, nor a role that it is a member of, nor a superuser, nor the role that
    /// [`PostgresOptions::schema_owner`](crate::PostgresOptions::schema_owner) names.
    #[error(
        "{} schema {schema} belongs to the role {owner}, which is neither the current role nor one that it is a member of \
         (if it is to be trusted, name it by PostgresOptions::schema_owner)",
        Object(object.as_deref())
    )]
    Owner {
        /// The schema.
        schema: String,
        /// The table or function, if the schema itself is not what belongs to that role.
        object: Option<String>,
        /// The role.
        owner: String,
    },
    /// The system's root certificates cannot be read, or TLS cannot be set up with them.
    #[error("TLS cannot be set up")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server asks for a password, and the URL or configuration has none.
    #[error("the server asks for a password, and none was given")]
    NoPassword,
    /// TLS was asked for, and the server does not have it.
    #[error("the server does not speak TLS")]
    ServerWithoutTls,
    /// The TLS handshake failed: the server's certificate is not trusted or is for another host, or the two sides have no version
    /// of TLS in common.
    #[error("the TLS handshake with the server failed")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no connection, or PostgreSQL failed.
    #[error("{} could not be opened", Database(database.as_deref()))]
    Postgres {
        /// The database's name, if the store has its own pool and the configuration names it.
        database: Option<String>,
        /// What happened.
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
    /// The same failure of the database of that name.
    pub(crate) fn of(self, name: Option<String>) -> Self {
        match self {
            Self::Postgres { database: None, source } => Self::Postgres { database: name, source },
            error => error,
        }
    }

    /// Whether the same call may succeed a little later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Postgres { source, .. } if source.is_retryable())
    }
}

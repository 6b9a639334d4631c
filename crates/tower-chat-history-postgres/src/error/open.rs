//! What can go wrong when a store is opened.

use super::PostgresError;

/// A store that was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be read. (It is not shown: it may hold a password.)
    #[error("the database's URL cannot be read")]
    Url,
    /// The URL asks for TLS, and the call has none.
    #[error("the URL asks for TLS: use connect_rustls (feature rustls) or connect_with")]
    NeedsTls,
    /// The schema's name cannot be used.
    #[error("a schema is named by 1 to 63 characters of a-z, 0-9 and _, and not by a digit or pg_ first")]
    SchemaName,
    /// The pool is to have no connection.
    #[error("a pool has at least one connection")]
    NoConnections,
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
    #[error("the database could not be opened")]
    Postgres(#[source] PostgresError),
}

impl From<PostgresError> for OpenError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::NoPassword => Self::NoPassword,
            PostgresError::ServerWithoutTls => Self::ServerWithoutTls,
            PostgresError::Handshake { source } => Self::Handshake(source),
            error => Self::Postgres(error),
        }
    }
}

impl OpenError {
    /// Whether the same call may succeed a little later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.is_retryable())
    }
}

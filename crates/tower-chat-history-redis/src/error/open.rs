//! Errors of opening a store.

use std::{error::Error, fmt, time::Duration};

use redis::{ErrorKind, RedisError};

use super::Failure;
use crate::options::RedisOptions;

type BoxError = Box<dyn Error + Send + Sync>;

/// An error of opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The key prefix is invalid.
    #[error(
        "invalid key prefix (RedisOptions::prefix): use at most {max} bytes of visible ASCII, without braces",
        max = RedisOptions::MAX_PREFIX
    )]
    Prefix,
    /// The expiry time is out of range.
    #[error(
        "invalid expiry time {time:?} (RedisOptions::expire_after): use {min:?} to {max:?}",
        min = RedisOptions::EXPIRE_AFTER.start(), max = RedisOptions::EXPIRE_AFTER.end()
    )]
    ExpireAfter {
        /// The requested time.
        time: Duration,
    },
    /// The server evicts keys when its memory is full, and
    /// [`RedisOptions::require_noeviction`](crate::RedisOptions::require_noeviction) refuses that.
    #[error(
        "the server evicts conversations when its memory is full (maxmemory-policy {policy}): set it to noeviction, or \
         turn off RedisOptions::require_noeviction"
    )]
    Evicts {
        /// The eviction policy, or `unknown` if the server does not report it.
        policy: String,
    },
    /// The address asks for TLS (`rediss://`), and the program was built without it.
    #[error("the address asks for TLS: build the crate tower-chat-history-redis with its feature rustls")]
    NeedsTls,
    /// The address is invalid, the server is unreachable, or it refused the connection. This includes a missing or
    /// wrong password.
    #[error("the server{} could not be connected to: {source}", At(server.as_deref()))]
    Connect {
        /// The hosts and ports that were tried, or the socket. `None` if the address is invalid, or an existing
        /// connection was given.
        server: Option<String>,
        /// The cause.
        source: BoxError,
    },
}

impl OpenError {
    /// Returns whether opening may succeed a little later: the server is unreachable, loading or being replaced. Wrong
    /// options, addresses and passwords, and certificates that are not trusted, are permanent.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let Self::Connect { source, .. } = self else { return false };
        source.downcast_ref::<Failure>().is_some_and(|failure| {
            failure.is_transient() && failure.credentials().is_none() && !failure.is_invalid_data()
        })
    }

    pub(crate) fn unreachable(error: RedisError) -> Self {
        // The message of redis-rs names the feature of redis-rs.
        let without_tls =
            error.kind() == ErrorKind::InvalidClientConfig && error.to_string().starts_with(BUILT_WITHOUT_TLS_TEXT);
        if without_tls { Self::NeedsTls } else { Self::Connect { server: None, source: Box::new(Failure(error)) } }
    }

    /// Adds the server's address to a connection error that has none.
    pub(crate) fn at(self, address: Option<String>) -> Self {
        match self {
            Self::Connect { server: None, source } => Self::Connect { server: address, source },
            error => error,
        }
    }
}

/// The text of redis-rs if it was built without TLS. A test checks it.
const BUILT_WITHOUT_TLS_TEXT: &str = "can't connect with TLS";

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(server) => write!(f, " at {server}"),
            None => Ok(()),
        }
    }
}

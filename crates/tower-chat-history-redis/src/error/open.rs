//! Errors of opening a store.

use std::{error::Error, fmt, time::Duration};

use redis::{ErrorKind, RedisError};

use super::Failure;
use crate::options::RedisOptions;

type BoxError = Box<dyn Error + Send + Sync>;

/// The text of redis-rs if it was built without TLS. A test checks it.
const BUILT_WITHOUT_TLS_TEXT: &str = "can't connect with TLS";

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
    /// The address requires TLS (`rediss://`), and the program was built without it.
    #[error("the address requires TLS: build the crate tower-chat-history-redis with its feature rustls")]
    NeedsTls,
    /// The address is invalid, the server is unreachable, or it refused the connection. This includes a missing or
    /// wrong password.
    #[error("connecting to the server{} failed: {source}", At(server.as_deref()))]
    Connect {
        /// The hosts and ports that were tried, or the socket. `None` if the address is invalid, or an existing
        /// connection was given.
        server: Option<String>,
        /// The cause.
        source: BoxError,
    },
}

impl OpenError {
    /// Returns `true` if the same call may succeed later: the server is unreachable, loading or being replaced. Wrong
    /// options, addresses and passwords are permanent failures, and so are certificates that are not trusted.
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

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(server) => write!(f, " at {server}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failure::tests::server;

    #[test]
    fn no_part_of_an_address_is_quoted() {
        let refused = redis::Client::open("redis://me:hunter2@localhost/?protocol=secret").unwrap_err();
        let shown = OpenError::unreachable(refused).at(Some("localhost:6379".into()));
        let OpenError::Connect { source, .. } = &shown else { panic!("{shown:?}") };
        assert_eq!(source.to_string(), "Invalid protocol version - InvalidClientConfig");
        let text = "connecting to the server at localhost:6379 failed: ";
        assert_eq!(shown.to_string(), format!("{text}{source}"));
        for kind in [ErrorKind::InvalidClientConfig, ErrorKind::Io, ErrorKind::ClusterConnectionNotFound] {
            let error = OpenError::unreachable((kind, "what is wrong", "hunter2".into()).into());
            let shown = format!("{error:?}");
            assert!(shown.contains("what is wrong") && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn only_transient_failures_to_open_are_retryable() {
        use std::io::ErrorKind::{ConnectionRefused, InvalidData, TimedOut};
        let io = |kind| OpenError::unreachable(std::io::Error::from(kind).into());
        for kind in [ConnectionRefused, TimedOut] {
            assert!(io(kind).is_retryable(), "{kind}");
        }
        assert!(!io(InvalidData).is_retryable(), "a certificate that is not trusted");
        assert!(OpenError::unreachable(server("LOADING x").0).is_retryable());
        for refusal in ["NOAUTH x", "WRONGPASS x", "NOPERM x"] {
            assert!(!OpenError::unreachable(server(refusal).0).is_retryable(), "{refusal}");
        }
        let password = (ErrorKind::Io, "redis-rs says", "AuthenticationFailed".to_owned());
        assert!(!OpenError::unreachable(password.into()).is_retryable());
        for error in [OpenError::Prefix, OpenError::NeedsTls, OpenError::Evicts { policy: "allkeys-lru".into() }] {
            assert!(!error.is_retryable(), "{error}");
        }
    }

    #[cfg(not(feature = "rustls"))]
    #[test]
    fn an_address_that_requires_tls_names_the_feature() {
        for url in ["rediss://localhost/", "rediss://me:secret@localhost:1/2"] {
            // Another crate may have enabled TLS in redis-rs. There is nothing to check then.
            let Err(refused) = redis::Client::open(url) else { return };
            let error = OpenError::unreachable(refused);
            assert!(matches!(error, OpenError::NeedsTls), "{error:?}");
            assert!(error.to_string().contains("tower-chat-history-redis with its feature rustls"), "{error}");
        }
    }
}

//! Errors of opening a store, and of its calls.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tower_chat_history_core::{ConversationId, Seq, StoreError};

use crate::options::RedisOptions;

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
        source: Box<dyn Error + Send + Sync>,
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

/// The source of the error for a conversation whose keys cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Keys of the conversation are missing, or a value cannot be read.
    #[error("keys of the conversation are missing or damaged: the server may have evicted some")]
    Damaged,
    /// A newer version of this store wrote the conversation, in a layout that this version does not know.
    ///
    /// The conversation is intact: the newer version can read it. This error is the source of a
    /// [`StoreError::Backend`].
    #[error(
        "the conversation was written by a newer version of this store: its layout is {found}, and this version \
         supports layouts up to {known}"
    )]
    Newer {
        /// The layout of the conversation.
        found: u32,
        /// The newest layout that this version knows.
        known: u32,
    },
}

impl LayoutError {
    /// Returns the error of a damaged conversation.
    pub(crate) fn damaged(id: &ConversationId, seq: u64) -> StoreError {
        StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(seq), source: Box::new(Self::Damaged) }
    }
}

/// The reply does not have a form that the script returns: the script has a defect, or the server is not compatible.
#[derive(Debug, thiserror::Error)]
#[error("unexpected reply from the server")]
pub(crate) struct UnexpectedReply;

impl UnexpectedReply {
    pub(crate) fn error() -> StoreError {
        StoreError::backend(Self)
    }
}

/// The log has no free position left.
#[derive(Debug, thiserror::Error)]
#[error("a conversation in this store has at most 4294967295 exchanges, at positions below 281474976710655")]
pub(crate) struct LogFull;

/// Other calls kept changing the conversation between the steps of this one.
#[derive(Debug, thiserror::Error)]
#[error("other calls kept changing the conversation")]
pub(crate) struct Contended;

/// A server failed to write its append-only file or its snapshot.
#[derive(Debug, thiserror::Error)]
#[error("a server failed to write its files: see its log")]
pub(crate) struct FilesNotWritten;

/// A server did not finish writing its files in time.
#[derive(Debug, thiserror::Error)]
#[error("a server is still writing its files after ten minutes")]
pub(crate) struct StillWriting;

/// The text of a server's response if it requires a password and the client sent none. Tests with a server check it.
const NO_PASSWORD_TEXT: &str = "Authentication required";

/// The texts of redis-rs, and of a server over RESP3, for a wrong user name or password.
const WRONG_PASSWORD_TEXTS: [&str; 2] = ["AuthenticationFailed", "WRONGPASS"];

/// The reason why a server does not accept the client's credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// The client sent none.
    Missing,
    /// The user name or the password is wrong.
    Refused,
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the server requires a password, and none was given (NOAUTH)",
            Self::Refused => "the server refused the name or the password of the user",
        })
    }
}

/// A failure of the server or the connection. It shows only the kind of the error: a server's message may quote the
/// arguments of a command.
pub(crate) struct Failure(pub(crate) RedisError);

impl Failure {
    /// Returns `true` if the same command may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self.0.kind() {
            ErrorKind::Server(kind) => matches!(
                kind,
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::Moved
                    | ServerErrorKind::Ask
            ),
            // If a connection breaks within a response, the part that arrived cannot be parsed.
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => true,
            // A slow script is running, replicas are missing, or the server cannot write to its disk.
            ErrorKind::Extension => matches!(self.0.code(), Some("BUSY" | "NOREPLICAS" | "MISCONF")),
            _ => false,
        }
    }

    /// Returns `true` if a call failed because its keys are in several slots of a Cluster.
    pub(crate) fn is_cross_slot(error: &StoreError) -> bool {
        let failure = error.source().and_then(|source| source.downcast_ref::<Self>());
        failure.is_some_and(|failure| failure.0.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot))
    }

    /// Returns `true` if the system or rustls rejected data from the server, such as its certificate.
    fn is_invalid_data(&self) -> bool {
        // The source that redis-rs returns is an `Arc` around the cause, so it must be downcast twice.
        let cause = self.0.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
        let cause = cause.and_then(|cause| (**cause).downcast_ref::<std::io::Error>());
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::InvalidData)
    }

    /// Returns `true` if a new connection may succeed: responses time out, the server is no longer a master, or the
    /// server refused to set up the connection. A broken connection is not such a case, because redis-rs replaces it
    /// itself.
    pub(crate) fn suggests_reconnect(&self) -> bool {
        match self.0.kind() {
            ErrorKind::Io => self.0.is_timeout(),
            // The server's errors for a password, for a database number, and for too many clients.
            ErrorKind::AuthenticationFailed
            | ErrorKind::Client
            | ErrorKind::Server(
                ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::ResponseError,
            ) => true,
            ErrorKind::Extension => self.credentials().is_some(),
            _ => false,
        }
    }

    /// Returns the reason if the server does not accept the client's credentials. A known user without the right to run
    /// a command (`NOPERM`) is a different failure.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        match self.0.kind() {
            ErrorKind::AuthenticationFailed => Some(Credentials::Refused),
            ErrorKind::Extension => match self.0.code()? {
                "NOAUTH" => Some(Credentials::Missing),
                "WRONGPASS" => Some(Credentials::Refused),
                _ => None,
            },
            // redis-rs wraps the same responses in its own errors: when it selects a database, and when it can connect
            // to none of the named nodes of a Cluster.
            ErrorKind::Server(ServerErrorKind::ResponseError) | ErrorKind::Io => {
                let detail = self.0.detail()?;
                if detail.contains(NO_PASSWORD_TEXT) {
                    return Some(Credentials::Missing);
                }
                let is_wrong = WRONG_PASSWORD_TEXTS.iter().any(|wrong| detail.contains(wrong));
                is_wrong.then_some(Credentials::Refused)
            }
            _ => None,
        }
    }

    /// Reads the script's error for an unknown layout: the layout of the conversation, and the newest known one.
    fn newer_layout(&self) -> Option<LayoutError> {
        if self.0.code() != Some("NEWER") {
            return None;
        }

        let mut numbers = self.0.detail()?.split(' ').map_while(|number| number.parse().ok());
        Some(LayoutError::Newer { found: numbers.next()?, known: numbers.next()? })
    }

    /// Returns the error of a call, which may concern one conversation.
    pub(crate) fn into_store_error(self, id: Option<&ConversationId>) -> StoreError {
        if self.is_transient() {
            return StoreError::unavailable(self);
        }
        let Some(id) = id else { return StoreError::backend(self) };

        if self.0.code() == Some("DAMAGED") {
            // A script found that a key is missing. The message begins with a position.
            let position = self.0.detail().and_then(|detail| detail.split(' ').next()?.parse().ok());
            LayoutError::damaged(id, position.unwrap_or_default())
        } else if let Some(newer) = self.newer_layout() {
            StoreError::backend(newer)
        } else {
            StoreError::backend(self)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.credentials(), self.0.kind()) {
            (Some(credentials), _) => write!(f, "{credentials}"),
            (None, ErrorKind::Extension) if self.0.code() == Some("BUSY") => {
                f.write_str("the server is busy with a script that takes too long (BUSY)")
            }
            (None, ErrorKind::Server(_) | ErrorKind::Extension) => {
                write!(f, "the server answered with the error {}", self.0.code().unwrap_or("unknown"))
            }
            // These errors come from the client or the system, so they quote no command. The detail that the client
            // adds is left out, because it may be a part of the address.
            (None, ErrorKind::Io | ErrorKind::InvalidClientConfig | ErrorKind::ClusterConnectionNotFound) => {
                let shown = self.0.to_string();
                let detail = self.0.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
                f.write_str(shown.strip_suffix(&detail).unwrap_or_else(|| self.0.category()))
            }
            _ => f.write_str(self.0.category()),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failure").field(&self.to_string()).finish()
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use redis::{make_extension_error, parse_redis_value};

    use super::*;

    /// Returns the failure that a server's error response causes.
    fn server(answer: &str) -> Failure {
        let value = parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        Failure(value.extract_error().unwrap_err())
    }

    #[test]
    fn failover_and_restart_responses_are_transient() {
        for answer in [
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script",
            "CLUSTERDOWN The cluster is down",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MASTERDOWN Link with MASTER is down",
            "READONLY You can't write against a read only replica.",
            "NOREPLICAS Not enough good replicas to write.",
            "MISCONF Redis is configured to save RDB snapshots",
        ] {
            assert!(server(answer).is_transient(), "{answer}");
        }
        for kind in
            [std::io::ErrorKind::TimedOut, std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::ConnectionRefused]
        {
            assert!(Failure(std::io::Error::from(kind).into()).is_transient());
        }
    }

    #[test]
    fn a_connection_that_may_be_stuck_is_replaced() {
        for answer in ["READONLY x", "LOADING x", "NOAUTH x", "WRONGPASS x", "ERR max number of clients reached"] {
            assert!(server(answer).suggests_reconnect(), "{answer}");
        }
        for kind in [ErrorKind::AuthenticationFailed, ErrorKind::Client] {
            assert!(Failure((kind, "x").into()).suggests_reconnect());
        }
        assert!(Failure(std::io::Error::from(std::io::ErrorKind::TimedOut).into()).suggests_reconnect());
        assert!(!Failure(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()).suggests_reconnect());
        for answer in ["NOPERM x", "DAMAGED 1", "NOSCRIPT x", "BUSY x", "OOM x"] {
            assert!(!server(answer).suggests_reconnect(), "{answer}");
        }
    }

    #[test]
    fn a_newer_layout_is_typed() {
        let id = ConversationId::new(["a"]).unwrap();
        let error = server("NEWER 3 1 script: 00, on @user_script:1.").into_store_error(Some(&id));
        let StoreError::Backend { source } = error else { panic!("{error:?}") };
        assert_eq!(source.downcast_ref(), Some(&LayoutError::Newer { found: 3, known: 1 }));
    }

    #[test]
    fn errors_that_a_user_can_fix_are_explained() {
        let busy = server("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
        assert_eq!(busy.to_string(), "the server is busy with a script that takes too long (BUSY)");
        let refused = Failure((ErrorKind::AuthenticationFailed, "x", "secret".into()).into());
        assert_eq!(refused.to_string(), "the server refused the name or the password of the user");
    }

    #[test]
    fn missing_and_wrong_credentials_are_distinguished_from_missing_rights() {
        fn within(kind: ErrorKind, detail: &str) -> Failure {
            Failure((kind, "redis-rs says", detail.to_owned()).into())
        }

        let answered = ErrorKind::Server(ServerErrorKind::ResponseError);
        for missing in [
            server("NOAUTH Authentication required."),
            server("NOAUTH HELLO must be called with the client already authenticated"),
            within(answered, "Authentication required."),
            within(ErrorKind::Io, "NOAUTH: Authentication required."),
        ] {
            assert_eq!(missing.credentials(), Some(Credentials::Missing), "{missing:?}");
            assert!(missing.to_string().contains("requires a password"), "{missing}");
        }
        for wrong in [
            server("WRONGPASS invalid username-password pair or user is disabled."),
            Failure((ErrorKind::AuthenticationFailed, "x").into()),
            within(ErrorKind::Io, "Password authentication failed - AuthenticationFailed"),
        ] {
            assert_eq!(wrong.credentials(), Some(Credentials::Refused), "{wrong:?}");
            assert!(wrong.to_string().contains("refused the name or the password"), "{wrong}");
        }
        for other in [
            server("NOPERM this user has no permissions to run the 'info' command"),
            server("ERR unknown command 'INFO'"),
            Failure(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        ] {
            assert_eq!(other.credentials(), None, "{other:?}");
        }
    }

    #[test]
    fn refusals_are_not_transient() {
        for answer in ["NOPERM x", "NOAUTH x", "ERR x", "CROSSSLOT x", "WRONGTYPE x", "OOM x"] {
            assert!(!server(answer).is_transient(), "{answer}");
        }
    }

    #[test]
    fn a_servers_message_is_not_quoted() {
        for failure in [
            server("ERR unknown command 'EVALSHA', with args beginning with: 'secret'"),
            Failure(make_extension_error("STRANGE".into(), Some("secret".into()))),
        ] {
            let shown = format!("{failure} {failure:?}");
            assert!(!shown.contains("secret"), "{shown}");
            let error = StoreError::backend(failure);
            let mut source: Option<&dyn Error> = Some(&error);
            while let Some(error) = source {
                assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
                source = error.source();
            }
        }
    }

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

        fn io(kind: std::io::ErrorKind) -> OpenError {
            OpenError::unreachable(std::io::Error::from(kind).into())
        }

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

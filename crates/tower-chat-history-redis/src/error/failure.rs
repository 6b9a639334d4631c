//! Failures of the server and the connection, and their mapping to errors of the store contract.

use std::{error::Error, fmt, sync::Arc};

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tower_chat_history_core::{ConversationId, StoreError};

use super::causes::{Damaged, NewerLayout};

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
    pub(super) fn is_invalid_data(&self) -> bool {
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
                let refused = || {
                    WRONG_PASSWORD_TEXTS.iter().any(|refused| detail.contains(refused)).then_some(Credentials::Refused)
                };
                if detail.contains(NO_PASSWORD_TEXT) { Some(Credentials::Missing) } else { refused() }
            }
            _ => None,
        }
    }

    /// Reads the script's error for an unknown layout: the layout of the conversation, and the newest known one.
    fn newer_layout(&self) -> Option<NewerLayout> {
        if self.0.code() != Some("NEWER") {
            return None;
        }
        let mut numbers = self.0.detail()?.split(' ').map_while(|number| number.parse().ok());
        Some(NewerLayout { found: numbers.next()?, known: numbers.next()? })
    }

    /// Returns the error of a call, which may concern one conversation.
    pub(crate) fn into_store_error(self, id: Option<&ConversationId>) -> StoreError {
        let Some(id) = id.filter(|_| !self.is_transient()) else {
            return if self.is_transient() { StoreError::unavailable(self) } else { StoreError::backend(self) };
        };
        if self.0.code() == Some("DAMAGED") {
            // A script found that a key is missing. The message begins with a position.
            let position = self.0.detail().and_then(|detail| detail.split(' ').next()?.parse().ok());
            Damaged::error(id, position.unwrap_or_default())
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
pub(super) mod tests {
    use redis::{make_extension_error, parse_redis_value};

    use super::*;

    /// Returns the failure that a server's error response causes.
    pub(in crate::error) fn server(answer: &str) -> Failure {
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
        assert_eq!(source.downcast_ref(), Some(&NewerLayout { found: 3, known: 1 }));
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
        let within = |kind, detail: &str| Failure((kind, "redis-rs says", detail.to_owned()).into());
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
}

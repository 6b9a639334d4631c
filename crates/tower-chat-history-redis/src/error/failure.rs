//! Failures of the server and of the connection.

use std::{error::Error, fmt, sync::Arc};

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tower_chat_history_core::{ConversationId, StoreError};

use super::{Damaged, NewerLayout};

/// The response of a server that asks for a password to a client without one. Tests with a server check it.
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
            Self::Missing => "the server demands a password, and none was given (NOAUTH)",
            Self::Refused => "the server refused the name or the password of the user",
        })
    }
}

/// A failure of the server or the connection. It shows only the kind of the error: a server's message may quote the
/// arguments of a command.
pub(crate) struct Failure(pub(crate) RedisError);

impl Failure {
    /// Returns whether the same command may succeed a little later.
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
            // A connection that breaks within a response leaves one that cannot be parsed.
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => true,
            // A slow script is running, replicas are missing, or the server cannot write to its disk.
            ErrorKind::Extension => matches!(self.0.code(), Some("BUSY" | "NOREPLICAS" | "MISCONF")),
            _ => false,
        }
    }

    /// Returns whether the system or rustls rejected data of the other side, such as a certificate.
    pub(super) fn is_invalid_data(&self) -> bool {
        // redis-rs returns the `Arc` that contains the cause.
        let cause = self.0.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
        let cause = cause.and_then(|cause| (**cause).downcast_ref::<std::io::Error>());
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::InvalidData)
    }

    /// Returns whether another connection may succeed: responses time out, the server is no longer a master, or the
    /// connection was never set up. A connection that breaks does not count, because redis-rs notices that itself.
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

    pub(crate) fn into_store_error(self, id: &ConversationId) -> StoreError {
        if self.is_transient() {
            StoreError::unavailable(self)
        } else if self.0.code() == Some("WRONGTYPE") {
            Damaged::error(id, 0)
        } else if self.0.code() == Some("DAMAGED") {
            // A script found an invalid index entry. The message begins with its position.
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
            // The client or the system makes these errors, so they quote no command. The detail that the client adds
            // may be a part of the address, and is left out.
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

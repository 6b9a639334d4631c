//! What can go wrong, and which of it may pass.

use std::{error::Error, fmt, time::Duration};

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tower_chat_history_core::{ConversationId, Seq, StoreError};

type BoxError = Box<dyn Error + Send + Sync>;

/// A store that was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The prefix cannot be used.
    #[error("a prefix has at most {max} bytes of visible ASCII, without braces", max = crate::RedisOptions::MAX_PREFIX)]
    Prefix,
    /// The time after which conversations expire is out of range.
    #[error("conversations cannot expire after {time:?}: the range is {range:?}", range = crate::RedisOptions::EXPIRE_AFTER)]
    ExpireAfter {
        /// What was asked for.
        time: Duration,
    },
    /// The server evicts keys when its memory is full, and that was [ruled out](crate::RedisOptions::require_noeviction).
    #[error("the server evicts conversations when its memory is full (maxmemory-policy {policy})")]
    Evicts {
        /// Its policy; `unknown` if it does not say.
        policy: String,
    },
    /// The address asks for TLS (`rediss://`), and the program was built without it.
    #[error("the address asks for TLS: build the crate tower-chat-history-redis with its feature rustls")]
    NeedsTls,
    /// The address is none, or the server could not be reached or refused the connection. A missing password, and a
    /// name or password that is wrong, are among it: the source says so.
    #[error("the server{} could not be connected to", At(server.as_deref()))]
    Connect {
        /// The hosts and ports that were tried, or the socket; `None` if the address cannot be read, or the connection
        /// is one that was given.
        server: Option<String>,
        /// What happened.
        source: BoxError,
    },
}

impl OpenError {
    pub(crate) fn unreachable(error: RedisError) -> Self {
        // What redis-rs says of it names its own feature.
        let without_tls = error.kind() == ErrorKind::InvalidClientConfig && error.to_string().starts_with(WITHOUT_TLS);
        if without_tls { Self::NeedsTls } else { Self::Connect { server: None, source: Box::new(Failure(error)) } }
    }

    /// The same failure to connect to that server.
    pub(crate) fn at(self, place: Option<String>) -> Self {
        match self {
            Self::Connect { server: None, source } => Self::Connect { server: place, source },
            error => error,
        }
    }
}

/// The answer of a server that demands a password to whoever gave none. Tests with a server hold it.
const MISSING: &str = "Authentication required";
/// The words of redis-rs, and of a server over RESP3, for a name or a password that is wrong.
const REFUSED: [&str; 2] = ["AuthenticationFailed", "WRONGPASS"];

/// Why a server does not know who is asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// It was given none.
    Missing,
    /// The name or the password is wrong.
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

/// How redis-rs says that it was built without TLS. A test holds it.
const WITHOUT_TLS: &str = "can't connect with TLS";

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(server) => write!(f, " at {server}"),
            None => Ok(()),
        }
    }
}

/// What the server or the connection said. It shows the kind of an error and never a command's arguments, which a server's
/// message may quote.
pub(crate) struct Failure(pub(crate) RedisError);

impl Failure {
    /// Whether the same command may succeed a little later.
    pub(crate) fn may_pass(&self) -> bool {
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
            // A connection that breaks off within an answer leaves one that cannot be parsed.
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => true,
            // A script of somebody else takes long; replicas are missing; the disk is full.
            ErrorKind::Extension => matches!(self.0.code(), Some("BUSY" | "NOREPLICAS" | "MISCONF")),
            _ => false,
        }
    }

    /// Whether another connection may do better: one on which no answer comes, whose server is no master any more, or that was
    /// never set up. What breaks a connection is not among it, since that is noticed below.
    pub(crate) fn may_be_the_connections(&self) -> bool {
        match self.0.kind() {
            ErrorKind::Io => self.0.is_timeout(),
            // What the server says to a password, to a database's number, and when it has too many clients.
            ErrorKind::AuthenticationFailed
            | ErrorKind::Client
            | ErrorKind::Server(
                ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::ResponseError,
            ) => true,
            ErrorKind::Extension => self.credentials().is_some(),
            _ => false,
        }
    }

    /// Returns why the server does not know who is asking; `None` if that is not the matter. A user that is known and
    /// may not run a command (`NOPERM`) is another one.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        match self.0.kind() {
            ErrorKind::AuthenticationFailed => Some(Credentials::Refused),
            ErrorKind::Extension => match self.0.code()? {
                "NOAUTH" => Some(Credentials::Missing),
                "WRONGPASS" => Some(Credentials::Refused),
                _ => None,
            },
            // redis-rs puts the same answers into errors of its own: when it chooses a database, and when it can
            // connect to none of the nodes of a cluster that were named.
            ErrorKind::Server(ServerErrorKind::ResponseError) | ErrorKind::Io => {
                let detail = self.0.detail()?;
                let refused = || REFUSED.iter().any(|refused| detail.contains(refused)).then_some(Credentials::Refused);
                if detail.contains(MISSING) { Some(Credentials::Missing) } else { refused() }
            }
            _ => None,
        }
    }

    /// The script's answer that it does not know a conversation's layout: the number that it found, and its own.
    fn newer_layout(&self) -> Option<NewerLayout> {
        if self.0.code() != Some("NEWER") {
            return None;
        }
        let mut numbers = self.0.detail()?.split(' ').map_while(|number| number.parse().ok());
        Some(NewerLayout { found: numbers.next()?, known: numbers.next()? })
    }

    pub(crate) fn into_store_error(self, id: &ConversationId) -> StoreError {
        if self.may_pass() {
            StoreError::unavailable(self)
        } else if self.0.code() == Some("WRONGTYPE") {
            Damaged::error(id, 0)
        } else if self.0.code() == Some("DAMAGED") {
            // A script found that an index entry is none. The message begins with its position.
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
            // These are made by the client and the system: there is nothing of a command in them. What the client adds
            // to its own words may be a part of the address.
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

/// Keys of a conversation are missing or do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys of the conversation are missing or damaged: the server evicted them, or somebody else wrote to them")]
#[non_exhaustive]
pub struct Damaged;

impl Damaged {
    pub(crate) fn error(id: &ConversationId, seq: u64) -> StoreError {
        StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(seq), source: Box::new(Self) }
    }
}

/// The conversation was written by a newer version of this store, whose layout this one does not know. It is whole, and can be
/// read by that version. It is the source of a [`StoreError::Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the conversation was written by a newer version of this store: its layout is {found}, and {known} is the newest known one"
)]
#[non_exhaustive]
pub struct NewerLayout {
    /// The number of its layout.
    pub found: u32,
    /// The newest one that this version knows.
    pub known: u32,
}

/// A script answered what it cannot answer: another version of it is at work, or this one has a mistake.
#[derive(Debug, thiserror::Error)]
#[error("the server's answer cannot be understood")]
pub(crate) struct Misunderstood;

impl Misunderstood {
    pub(crate) fn error() -> StoreError {
        StoreError::backend(Self)
    }
}

/// No place is left in the log.
#[derive(Debug, thiserror::Error)]
#[error("a conversation has at most 4294967295 exchanges in this store")]
pub(crate) struct LogFull;

/// Other processes kept changing the conversation.
#[derive(Debug, thiserror::Error)]
#[error("other calls kept changing the conversation")]
pub(crate) struct Busy;

#[cfg(test)]
mod tests {
    use redis::{make_extension_error, parse_redis_value};

    use super::*;

    fn server(answer: &str) -> Failure {
        let value = parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        Failure(value.extract_error().unwrap_err())
    }

    #[test]
    fn what_a_failover_or_a_restart_answers_may_pass() {
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
            assert!(server(answer).may_pass(), "{answer}");
        }
        for kind in
            [std::io::ErrorKind::TimedOut, std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::ConnectionRefused]
        {
            assert!(Failure(std::io::Error::from(kind).into()).may_pass());
        }
    }

    #[test]
    fn another_connection_is_tried_where_one_may_be_stuck() {
        for answer in ["READONLY x", "LOADING x", "NOAUTH x", "WRONGPASS x", "ERR max number of clients reached"] {
            assert!(server(answer).may_be_the_connections(), "{answer}");
        }
        for kind in [ErrorKind::AuthenticationFailed, ErrorKind::Client] {
            assert!(Failure((kind, "x").into()).may_be_the_connections());
        }
        assert!(Failure(std::io::Error::from(std::io::ErrorKind::TimedOut).into()).may_be_the_connections());
        assert!(!Failure(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()).may_be_the_connections());
        for answer in ["NOPERM x", "DAMAGED 1", "NOSCRIPT x", "BUSY x", "OOM x"] {
            assert!(!server(answer).may_be_the_connections(), "{answer}");
        }
    }

    #[test]
    fn a_newer_layout_is_typed() {
        let id = ConversationId::new(["a"]).unwrap();
        let error = server("NEWER 3 1 script: 00, on @user_script:1.").into_store_error(&id);
        let StoreError::Backend { source } = error else { panic!("{error:?}") };
        assert_eq!(source.downcast_ref(), Some(&NewerLayout { found: 3, known: 1 }));
    }

    #[test]
    fn what_a_user_can_mend_is_told_in_words() {
        let busy = server("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
        assert_eq!(busy.to_string(), "the server is busy with a script that takes too long (BUSY)");
        let refused = Failure((ErrorKind::AuthenticationFailed, "x", "secret".into()).into());
        assert_eq!(refused.to_string(), "the server refused the name or the password of the user");
    }

    #[test]
    fn missing_and_wrong_credentials_are_told_from_missing_rights() {
        let within = |kind, detail: &str| Failure((kind, "redis-rs says", detail.to_owned()).into());
        let answered = ErrorKind::Server(ServerErrorKind::ResponseError);
        for missing in [
            server("NOAUTH Authentication required."),
            server("NOAUTH HELLO must be called with the client already authenticated"),
            within(answered, "Authentication required."),
            within(ErrorKind::Io, "NOAUTH: Authentication required."),
        ] {
            assert_eq!(missing.credentials(), Some(Credentials::Missing), "{missing:?}");
            assert!(missing.to_string().contains("demands a password"), "{missing}");
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
    fn no_part_of_an_address_is_quoted() {
        let refused = redis::Client::open("redis://me:hunter2@localhost/?protocol=secret").unwrap_err();
        let shown = OpenError::unreachable(refused).at(Some("localhost:6379".into()));
        let OpenError::Connect { source, .. } = &shown else { panic!("{shown:?}") };
        assert_eq!(source.to_string(), "Invalid protocol version - InvalidClientConfig");
        assert_eq!(shown.to_string(), "the server at localhost:6379 could not be connected to");
        for kind in [ErrorKind::InvalidClientConfig, ErrorKind::Io, ErrorKind::ClusterConnectionNotFound] {
            let error = OpenError::unreachable((kind, "what is wrong", "hunter2".into()).into());
            let shown = format!("{error:?}");
            assert!(shown.contains("what is wrong") && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[cfg(not(feature = "rustls"))]
    #[test]
    fn an_address_that_asks_for_tls_names_the_feature() {
        for url in ["rediss://localhost/", "rediss://me:secret@localhost:1/2"] {
            // Another crate may have built redis-rs with TLS: then there is nothing to be told.
            let Err(refused) = redis::Client::open(url) else { return };
            let error = OpenError::unreachable(refused);
            assert!(matches!(error, OpenError::NeedsTls), "{error:?}");
            assert!(error.to_string().contains("tower-chat-history-redis with its feature rustls"), "{error}");
        }
    }

    #[test]
    fn refusals_do_not_pass() {
        for answer in ["NOPERM x", "NOAUTH x", "ERR x", "CROSSSLOT x", "WRONGTYPE x", "OOM x"] {
            assert!(!server(answer).may_pass(), "{answer}");
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

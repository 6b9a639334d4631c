//! Tests of the errors.

use std::error::Error;

use redis::{ErrorKind, ServerErrorKind, make_extension_error, parse_redis_value};
use tower_chat_history_core::{ConversationId, StoreError};

use super::{Failure, NewerLayout, OpenError, failure::Credentials};

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
    for kind in [std::io::ErrorKind::TimedOut, std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::ConnectionRefused] {
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
    let error = server("NEWER 3 1 script: 00, on @user_script:1.").into_store_error(&id);
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
    let text = "the server at localhost:6379 could not be connected to: ";
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
fn an_address_that_asks_for_tls_names_the_feature() {
    for url in ["rediss://localhost/", "rediss://me:secret@localhost:1/2"] {
        // Another crate may have enabled TLS in redis-rs. There is nothing to check then.
        let Err(refused) = redis::Client::open(url) else { return };
        let error = OpenError::unreachable(refused);
        assert!(matches!(error, OpenError::NeedsTls), "{error:?}");
        assert!(error.to_string().contains("tower-chat-history-redis with its feature rustls"), "{error}");
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

//! Servers that require a name and a password.

use std::error::Error;

use libtest_mimic::Trial;
use redis::Client;
use test_servers::{free_ports, redis::Server, trials};
use tower_chat_history_core::{HistoryStore, Load};
use tower_chat_history_redis::OpenError;

use crate::support::{cluster, command, conversation, multiplexed, patient};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_missing_password_is_reported_when_connecting,
        a_missing_password_of_a_given_connection_is_reported,
        a_wrong_password_is_reported_when_connecting,
        a_user_without_rights_is_not_a_missing_password,
        wrong_and_missing_passwords_of_a_cluster_are_reported,
    ]
}

const PASSWORD: &str = "hunter2";
const MISSING: &str = "requires a password";
const WRONG: &str = "refused the name or the password";

fn guarded() -> Server {
    guarded_with(&[])
}

fn guarded_with(settings: &[&str]) -> Server {
    Server::with(&[&["--save", "", "--appendonly", "no", "--requirepass", PASSWORD], settings].concat())
}

/// Returns the URL with this query. The credentials for a socket are in the query.
fn address(server: &Server, query: &str) -> String {
    format!("{}{query}", server.url().replace("unix:", "redis+unix:"))
}

/// Checks that the error is one of connecting, states the reason, and has no secret.
fn assert_reason(error: &OpenError, why: &str) {
    assert!(matches!(error, OpenError::Connect { .. }), "{error:?}");
    let said = error.source().unwrap().to_string();
    assert!(said.contains(why), "{said}");
    let all = format!("{error} {error:?} {said}");
    assert!(![PASSWORD, "secret", "nobody"].iter().any(|secret| all.contains(secret)), "{all}");
}

async fn a_missing_password_is_reported_when_connecting() {
    let server = guarded();
    // With a database number, redis-rs turns the same answer into another error.
    for query in ["", "?db=3", "?protocol=resp3", "?db=3&protocol=resp3", "?user=nobody"] {
        for require in [false, true] {
            let options = patient().require_noeviction(require);
            assert_reason(&options.connect(address(&server, query)).await.unwrap_err(), MISSING);
        }
    }
    let store = patient().connect(address(&server, &format!("?pass={PASSWORD}"))).await.unwrap();
    assert!(store.load(&conversation("a"), Load::new()).await.unwrap().is_absent());
}

async fn a_missing_password_of_a_given_connection_is_reported() {
    let server = guarded();
    assert_reason(&patient().over(multiplexed(&server).await).await.unwrap_err(), MISSING);
}

async fn a_wrong_password_is_reported_when_connecting() {
    let server = guarded();
    for query in ["?pass=secret", "?user=nobody&pass=secret", "?pass=secret&protocol=resp3", "?pass=secret&db=3"] {
        assert_reason(&patient().connect(address(&server, query)).await.unwrap_err(), WRONG);
    }
}

async fn a_user_without_rights_is_not_a_missing_password() {
    let server = guarded();
    let mut admin = Client::open(address(&server, &format!("?pass={PASSWORD}"))).unwrap().get_connection().unwrap();
    command(&["ACL", "SETUSER", "app", "on", ">pass", "~chat:*", "+evalsha", "+eval", "+hmget"])
        .query::<()>(&mut admin)
        .unwrap();
    let url = address(&server, "?user=app&pass=pass");
    patient().connect(&url).await.unwrap();
    let refused = patient().require_noeviction(true).connect(&url).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "unknown"), "{refused}");
}

async fn wrong_and_missing_passwords_of_a_cluster_are_reported() {
    let urls = || cluster().urls().into_iter().map(|url| url.replace("//", "//nobody:secret@"));
    assert_reason(&patient().connect_cluster(urls()).await.unwrap_err(), WRONG);
    // A single server is not a cluster, but the missing password is found first.
    let port = free_ports().next().unwrap().to_string();
    let _server = guarded_with(&["--port", &port, "--bind", "127.0.0.1"]);
    let url = format!("redis://127.0.0.1:{port}/");
    assert_reason(&patient().connect_cluster([url]).await.unwrap_err(), MISSING);
}

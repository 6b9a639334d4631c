//! Servers that let nobody in without a name and a password.

use std::error::Error;

use libtest_mimic::Trial;
use redis::{Client, aio::ConnectionManager};
use test_servers::{free_ports, redis::Server, trials};
use tower_chat_history_core::{HistoryStore, Load, Loaded};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

use crate::support::{cluster, command, conversation};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_missing_password_is_noticed_when_connecting,
        a_missing_password_of_a_given_connection_is_noticed,
        a_wrong_password_is_noticed_when_connecting,
        a_user_without_rights_is_no_missing_password,
        a_cluster_names_wrong_and_missing_passwords,
    ]
}

const PASSWORD: &str = "hunter2";
const MISSING: &str = "demands a password";
const WRONG: &str = "refused the name or the password";

fn guarded() -> Server {
    guarded_with(&[])
}

fn guarded_with(settings: &[&str]) -> Server {
    Server::with(&[&["--save", "", "--appendonly", "no", "--requirepass", PASSWORD], settings].concat())
}

/// The address with this query: that of a socket has its credentials there.
fn address(server: &Server, query: &str) -> String {
    format!("{}{query}", server.url().replace("unix:", "redis+unix:"))
}

/// Checks that the error is one of connecting, says why, and has no secret in it.
fn says(error: &OpenError, why: &str) {
    assert!(matches!(error, OpenError::Connect { .. }), "{error:?}");
    let said = error.source().unwrap().to_string();
    assert!(said.contains(why), "{said}");
    let all = format!("{error} {error:?} {said}");
    assert!(![PASSWORD, "secret", "nobody"].iter().any(|secret| all.contains(secret)), "{all}");
}

async fn a_missing_password_is_noticed_when_connecting() {
    let server = guarded();
    // With a database, redis-rs makes an error of its own of the same answer.
    for query in ["", "?db=3", "?protocol=resp3", "?db=3&protocol=resp3", "?user=nobody"] {
        for require in [false, true] {
            let options = RedisOptions::new().require_noeviction(require);
            says(&options.connect(address(&server, query)).await.unwrap_err(), MISSING);
        }
    }
    let store = RedisStore::connect(address(&server, &format!("?pass={PASSWORD}"))).await.unwrap();
    assert_eq!(store.load(&conversation("a"), Load::new()).await.unwrap(), Loaded::Absent);
}

async fn a_missing_password_of_a_given_connection_is_noticed() {
    let server = guarded();
    let connection = ConnectionManager::new(Client::open(server.url()).unwrap()).await.unwrap();
    says(&RedisOptions::new().over(connection).await.unwrap_err(), MISSING);
}

async fn a_wrong_password_is_noticed_when_connecting() {
    let server = guarded();
    for query in ["?pass=secret", "?user=nobody&pass=secret", "?pass=secret&protocol=resp3", "?pass=secret&db=3"] {
        says(&RedisStore::connect(address(&server, query)).await.unwrap_err(), WRONG);
    }
}

async fn a_user_without_rights_is_no_missing_password() {
    let server = guarded();
    let mut admin = Client::open(address(&server, &format!("?pass={PASSWORD}"))).unwrap().get_connection().unwrap();
    command(&["ACL", "SETUSER", "app", "on", ">pass", "~chat:*", "+evalsha", "+eval", "+hmget"])
        .query::<()>(&mut admin)
        .unwrap();
    let url = address(&server, "?user=app&pass=pass");
    RedisStore::connect(&url).await.unwrap();
    let refused = RedisOptions::new().require_noeviction(true).connect(&url).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "unknown"), "{refused}");
}

async fn a_cluster_names_wrong_and_missing_passwords() {
    let urls = || cluster().urls().into_iter().map(|url| url.replace("//", "//nobody:secret@"));
    says(&RedisOptions::new().connect_cluster(urls()).await.unwrap_err(), WRONG);
    // A single server is no cluster, but nobody gets as far as to find that out.
    let port = free_ports().next().unwrap().to_string();
    let _server = guarded_with(&["--port", &port, "--bind", "127.0.0.1"]);
    let url = format!("redis://127.0.0.1:{port}/");
    says(&RedisOptions::new().connect_cluster([url]).await.unwrap_err(), MISSING);
}

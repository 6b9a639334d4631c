//! Opening stores: on servers that require a name and a password, and with options at the ends of their ranges.

use std::{error::Error, time::Duration};

use libtest_mimic::Trial;
use redis::Client;
use test_servers::{free_ports, redis::Server, trials};
use tokio::net::TcpSocket;
use tower_chat_history_core::{HistoryStore, Load};
use tower_chat_history_redis::OpenError;

use crate::support::{cluster, command, conversation, multiplexed, patient, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_missing_password_is_reported_when_connecting,
        a_missing_password_of_a_given_connection_is_reported,
        a_wrong_password_is_reported_when_connecting,
        a_user_without_rights_is_not_a_missing_password,
        wrong_and_missing_passwords_of_a_cluster_are_reported,
        a_store_opens_with_every_time_limit,
        an_error_names_the_server_without_secrets,
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
    let urls = cluster().urls().into_iter().map(|url| url.replace("//", "//nobody:secret@"));
    assert_reason(&patient().connect_cluster(urls).await.unwrap_err(), WRONG);

    // A single server is not a cluster, but the missing password is found first.
    let port = free_ports().next().unwrap().to_string();
    let _server = guarded_with(&["--port", &port, "--bind", "127.0.0.1"]);
    let url = format!("redis://127.0.0.1:{port}/");
    assert_reason(&patient().connect_cluster([url]).await.unwrap_err(), MISSING);
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn a_store_opens_with_every_time_limit() {
    let port = free_ports().next().unwrap();
    let _server = Server::with(&["--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    let address = format!("redis://127.0.0.1:{port}/");
    let largest = Duration::from_millis(i32::MAX as u64);
    for (number, limit) in [DAY, largest / 2, largest / 2 + Duration::from_millis(1), largest, 30 * DAY, Duration::MAX]
        .into_iter()
        .enumerate()
    {
        let id = conversation(&format!("extreme {number}"));
        for options in [
            patient().response_timeout(limit),
            patient().connection_timeout(limit),
            patient().retry_for(limit),
            patient().response_timeout(limit).connection_timeout(limit).retry_for(limit),
        ] {
            say(&options.clone().connect(&address).await.unwrap(), &id, "single").await;
            say(&options.connect_cluster(cluster().urls()).await.unwrap(), &id, "cluster").await;
        }
        let single = patient().connect(&address).await.unwrap();
        assert_eq!(texts(&single, &id).await, ["single"; 4]);
    }
    // A single attempt is enough if nothing fails.
    let once = patient().retry_for(Duration::ZERO).connect(&address).await.unwrap();
    say(&once, &conversation("once"), "one").await;
}

async fn an_error_names_the_server_without_secrets() {
    // No server can listen at its port, because this socket has it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let url = format!("redis://me:hunter2@127.0.0.1:{port}/");
    let options = patient().retry_for(Duration::ZERO).connection_timeout(Duration::from_secs(1));

    let single = options.clone().connect(&url).await.unwrap_err();
    let cluster = options.clone().connect_cluster([&url]).await.unwrap_err();
    for error in [single, cluster] {
        let OpenError::Connect { source, .. } = &error else { panic!("{error:?}") };
        let text = format!("connecting to the server at 127.0.0.1:{port} failed: {source}");
        assert_eq!(error.to_string(), text);
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    let no_address = options.connect("hunter2").await.unwrap_err();
    assert!(matches!(&no_address, OpenError::Connect { server: None, .. }), "{no_address:?}");
    assert!(!format!("{no_address} {no_address:?}").contains("hunter2"), "{no_address:?}");
}

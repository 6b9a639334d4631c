//! TLS between the store and real servers, with certificates that this test creates.
//!
//! The tests connect with the system's roots, with other roots, and in ways that must fail.
//!
//! This file is a binary of its own, because its process needs its own environment: see
//! [`with_certificates`].
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{fs, process::ExitCode, time::Duration};

use redis::AsyncConnectionConfig;
use test_servers::{
    free_ports,
    redis::{NAME, Server, is_available},
    tls::{AUTHORITY, CERTIFICATE, KEY, KNOWN, UNKNOWN, error_chain, file, stores_and_reads, with_certificates},
    trials,
};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

/// Starts a Redis server that accepts only TLS. Returns the server and its port.
fn redis_with(certificates: &str, settings: &[&str]) -> (Server, u16) {
    let port = free_ports().next().unwrap();
    let of_port = port.to_string();
    let files = [AUTHORITY, CERTIFICATE, KEY].map(|name| file(certificates, name));
    let [authority, certificate, key] = files.each_ref().map(|file| file.to_str().unwrap());
    let usual = ["--save", "", "--bind", "127.0.0.1", "--tls-port", &of_port];
    let tls = ["--tls-ca-cert-file", authority, "--tls-cert-file", certificate, "--tls-key-file", key];
    (Server::with(&[usual.as_slice(), &tls, settings].concat()), port)
}

/// The setting with which a server requests no client certificates.
const OPEN: [&str; 2] = ["--tls-auth-clients", "no"];

/// Returns options with time limits that no call reaches, also on a busy machine.
fn patient() -> RedisOptions {
    let patience = Duration::from_secs(60);
    RedisOptions::new().response_timeout(patience).connection_timeout(patience).retry_for(patience)
}

fn trusting(authority: &str) -> RedisOptions {
    patient().root_certificates(fs::read(file(authority, AUTHORITY)).unwrap())
}

async fn the_systems_roots_are_trusted() {
    let (_server, port) = redis_with(KNOWN, &OPEN);
    let store = patient().connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap();
    stores_and_reads(&store, "system").await;
}

async fn custom_roots_are_trusted() {
    let (_server, port) = redis_with(UNKNOWN, &OPEN);
    let store = trusting(UNKNOWN).connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap();
    stores_and_reads(&store, "own").await;
}

async fn a_client_certificate_is_sent_on_request() {
    let (_server, port) = redis_with(UNKNOWN, &["--tls-auth-clients", "yes"]);
    let url = format!("rediss://127.0.0.1:{port}/");
    let [certificate, key] = [CERTIFICATE, KEY].map(|name| fs::read(file(UNKNOWN, name)).unwrap());
    let options = trusting(UNKNOWN).client_certificate(certificate, key);
    // The key is shown neither as text nor as bytes.
    let shown = format!("{options:?}");
    assert!(!shown.contains("BEGIN") && !shown.contains("45, 45"), "a key is not shown");
    stores_and_reads(&options.connect(&url).await.unwrap(), "mutual").await;
    let error = trusting(UNKNOWN).connect(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Connect { .. }), "{}", error_chain(&error));
}

async fn connections_to_cluster_nodes_use_tls() {
    let cluster = [
        "--cluster-enabled",
        "yes",
        "--tls-cluster",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
        "--tls-auth-clients",
        "no",
    ];
    let (server, port) = redis_with(UNKNOWN, &cluster);
    let unlimited = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = redis::Client::open(server.url()).unwrap();
    let mut node = client.get_multiplexed_async_connection_with_config(&unlimited).await.unwrap();
    let () = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).query_async(&mut node).await.unwrap();
    loop {
        let state: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut node).await.unwrap();
        if state.contains("cluster_state:ok") {
            break;
        }
        tokio::task::yield_now().await;
    }
    let urls = [format!("rediss://127.0.0.1:{port}/")];
    stores_and_reads(&trusting(UNKNOWN).connect_cluster(&urls).await.unwrap(), "cluster").await;
    assert!(RedisStore::connect_cluster(&urls).await.is_err(), "the authority is not one of the system's roots");
}

async fn an_unknown_authority_is_refused() {
    let (_server, port) = redis_with(UNKNOWN, &OPEN);
    let error = patient().connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap_err();
    assert!(
        matches!(error, OpenError::Connect { .. }) && error_chain(&error).contains("UnknownIssuer"),
        "{}",
        error_chain(&error)
    );
}

async fn a_connection_without_tls_is_refused() {
    let (_server, port) = redis_with(KNOWN, &OPEN);
    let error = RedisStore::connect(format!("redis://127.0.0.1:{port}/")).await.unwrap_err();
    assert!(matches!(error, OpenError::Connect { .. }), "{}", error_chain(&error));
}

fn main() -> ExitCode {
    with_certificates(|| {
        // If a program has several providers, rustls chooses none.
        rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
        let tests = trials![
            the_systems_roots_are_trusted,
            custom_roots_are_trusted,
            a_client_certificate_is_sent_on_request,
            connections_to_cluster_nodes_use_tls,
            an_unknown_authority_is_refused,
            a_connection_without_tls_is_refused
        ];
        test_servers::run(NAME, is_available(), tests)
    })
}

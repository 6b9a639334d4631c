//! TLS between the store and a real server, with certificates that this test creates.
//!
//! The tests connect with the system's roots, with other roots, and in ways that must fail.
//!
//! This file is a binary of its own, because its process needs its own environment: see
//! [`with_certificates`].
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{process::ExitCode, sync::OnceLock, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use test_servers::{
    postgres,
    tls::{AUTHORITY, CERTIFICATE, KEY, KNOWN, UNKNOWN, error_chain, file, stores_and_reads, text, with_certificates},
    trials,
};
use tokio_postgres::{Config, NoTls, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tower_chat_history_postgres::{OpenError, PostgresOptions, PostgresStore};

/// Returns a PostgreSQL server with a certificate of the known authority.
fn postgres_server() -> &'static postgres::Server {
    static SHARED: OnceLock<postgres::Server> = OnceLock::new();
    SHARED.get_or_init(|| postgres::Server::with_tls(&text(KNOWN, CERTIFICATE), &text(KNOWN, KEY)))
}

fn postgres_url() -> String {
    format!("postgres://test@127.0.0.1:{}/postgres", postgres_server().tls_port().unwrap())
}

/// Returns a custom connector that trusts this authority.
fn connector(trusted: &str) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(trusted, AUTHORITY)).unwrap()).unwrap();
    MakeRustlsConnect::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// Returns options with time limits for connections that no call reaches, also on a busy machine.
fn patient() -> PostgresOptions {
    PostgresOptions::new().pool_timeout(Duration::from_secs(60))
}

async fn to_postgres(change: impl FnOnce(&mut Config), trusted: &str) -> Result<PostgresStore, OpenError> {
    let mut config: Config = postgres_url().parse().unwrap();
    config.ssl_mode(SslMode::Require);
    change(&mut config);
    patient().connect_with(config, connector(trusted)).await
}

/// Returns the number of connections to the server with this application name: with TLS, and without.
async fn connections(application: &str) -> (i64, i64) {
    let url = postgres_server().url("postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = "select count(*) filter (where ssl), count(*) filter (where not ssl)
        from pg_stat_ssl join pg_stat_activity using (pid) where application_name = $1";
    let row = client.query_one(count, &[&application]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn custom_roots_are_trusted() {
    let store = to_postgres(
        |config| {
            config.application_name("own");
        },
        KNOWN,
    )
    .await
    .unwrap();
    stores_and_reads(&store, "own").await;
    assert_eq!(connections("own").await, (1, 0));
}

async fn the_systems_roots_are_trusted() {
    let url = format!("{}?application_name=system", postgres_url());
    let store = patient().connect_rustls(&url).await.unwrap();
    stores_and_reads(&store, "system").await;
    assert_eq!(connections("system").await, (1, 0));
}

async fn an_unknown_authority_is_refused() {
    let error = to_postgres(|_| (), UNKNOWN).await.unwrap_err();
    assert!(error_chain(&error).contains("UnknownIssuer"), "{}", error_chain(&error));
}

async fn a_certificate_for_another_name_is_refused() {
    let elsewhere = |config: &mut Config| {
        let port = postgres_server().tls_port().unwrap();
        *config = format!("host=localhost hostaddr=127.0.0.1 port={port} user=test sslmode=require").parse().unwrap();
    };
    let error = to_postgres(elsewhere, KNOWN).await.unwrap_err();
    assert!(error_chain(&error).contains("not valid for name"), "{}", error_chain(&error));
}

async fn a_server_that_requires_tls_is_reported() {
    let error = patient().connect(&postgres_url()).await.unwrap_err();
    assert!(error_chain(&error).contains("TLS"), "{}", error_chain(&error));
}

fn main() -> ExitCode {
    with_certificates(|| {
        // If a program has several providers, rustls chooses none.
        rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
        let tests = trials![
            custom_roots_are_trusted,
            the_systems_roots_are_trusted,
            an_unknown_authority_is_refused,
            a_certificate_for_another_name_is_refused,
            a_server_that_requires_tls_is_reported
        ];
        test_servers::run(postgres::NAME, postgres::is_available(), tests)
    })
}

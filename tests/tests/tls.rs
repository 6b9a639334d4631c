//! TLS between the stores and real servers, whose certificates this test makes.
//!
//! What is tested is what a user can do: with the system's roots, with other roots, and what is said where that must fail.
#![allow(clippy::unwrap_used)] // A test may.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::OnceLock,
};

use libtest_mimic::{Arguments, Trial};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tests::servers::{free_ports, left_out, postgres, redis as redis_server, test};
use tokio_postgres::{Config, NoTls, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt as _, Message};
use tower_chat_history_postgres::{OpenError, PostgresOptions, PostgresStore};
use tower_chat_history_redis::{OpenError as RedisOpenError, RedisOptions, RedisStore};

/// What the libraries read the system's roots from, if it is set.
const ROOTS: &str = "SSL_CERT_FILE";
/// Tells the process that runs the tests where the certificates are.
const DIRECTORY: &str = "TLS_TEST_DIRECTORY";

/// An authority, and a certificate for 127.0.0.1 that it signed.
struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    fn new(name: &str) -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        // Two of one name could not be told from each other but by their signatures.
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let own = authority.self_signed(&authority_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let server = server.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
        Self { authority: own, certificate: server.pem(), key: key.serialize_pem() }
    }

    fn write(&self, directory: &Path) {
        fs::create_dir(directory).unwrap();
        for (name, text) in [(AUTHORITY, &self.authority), (CERTIFICATE, &self.certificate), (KEY, &self.key)] {
            fs::write(directory.join(name), text).unwrap();
        }
    }
}

const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// Certificates whose authority is the only one of the system's roots.
const KNOWN: &str = "known";
/// Certificates of an authority that nobody trusts.
const UNKNOWN: &str = "unknown";

fn file(of: &str, name: &str) -> PathBuf {
    Path::new(&env::var_os(DIRECTORY).unwrap()).join(of).join(name)
}

fn text(of: &str, name: &str) -> String {
    fs::read_to_string(file(of, name)).unwrap()
}

/// All that an error says, with its causes.
fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn stores_and_reads(store: &dyn HistoryStore, conversation: &str) {
    let id = ConversationId::new(["tls", conversation]).unwrap();
    let conversation = store.conversation(&id);
    conversation.import([Message::user("Is this secret?"), Message::assistant("It is.")]).await.unwrap();
    assert_eq!(conversation.messages().await.unwrap()[1].text(), "It is.");
}

/// PostgreSQL with a certificate of the known authority.
fn postgres_server() -> &'static postgres::Server {
    static SHARED: OnceLock<postgres::Server> = OnceLock::new();
    SHARED.get_or_init(|| postgres::Server::with_tls(&text(KNOWN, CERTIFICATE), &text(KNOWN, KEY)))
}

fn postgres_url() -> String {
    format!("postgres://test@127.0.0.1:{}/postgres", postgres_server().tls_port().unwrap())
}

/// A connector of the user's own, who trusts that authority.
fn connector(trusted: &str) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(trusted, AUTHORITY)).unwrap()).unwrap();
    MakeRustlsConnect::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

async fn to_postgres(change: impl FnOnce(&mut Config), trusted: &str) -> Result<PostgresStore, OpenError> {
    let mut config: Config = postgres_url().parse().unwrap();
    config.ssl_mode(SslMode::Require);
    change(&mut config);
    PostgresOptions::new().connect_with(config, connector(trusted)).await
}

/// How many connections of the stores there are at the server: with TLS and without.
async fn connections(application: &str) -> (i64, i64) {
    let url = postgres_server().url("postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = "select count(*) filter (where ssl), count(*) filter (where not ssl)
        from pg_stat_ssl join pg_stat_activity using (pid) where application_name = $1";
    let row = client.query_one(count, &[&application]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn postgres_with_roots_of_ones_own() {
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

async fn postgres_with_the_systems_roots() {
    let url = format!("{}?application_name=system", postgres_url());
    let store = PostgresOptions::new().connect_rustls(&url).await.unwrap();
    stores_and_reads(&store, "system").await;
    assert_eq!(connections("system").await, (1, 0));
}

async fn postgres_of_an_unknown_authority() {
    let error = to_postgres(|_| (), UNKNOWN).await.unwrap_err();
    assert!(said(&error).contains("UnknownIssuer"), "{}", said(&error));
}

async fn postgres_under_another_name() {
    let elsewhere = |config: &mut Config| {
        let port = postgres_server().tls_port().unwrap();
        *config = format!("host=localhost hostaddr=127.0.0.1 port={port} user=test sslmode=require").parse().unwrap();
    };
    let error = to_postgres(elsewhere, KNOWN).await.unwrap_err();
    assert!(said(&error).contains("not valid for name"), "{}", said(&error));
}

async fn postgres_that_requires_tls() {
    let error = PostgresOptions::new().connect(&postgres_url()).await.unwrap_err();
    assert!(said(&error).contains("TLS"), "{}", said(&error));
}

/// A Redis server that can be reached with TLS only, and its port.
fn redis_with(certificates: &str, settings: &[&str]) -> (redis_server::Server, u16) {
    let port = free_ports().next().unwrap();
    let (of_port, files) = (port.to_string(), [AUTHORITY, CERTIFICATE, KEY].map(|name| file(certificates, name)));
    let [authority, certificate, key] = files.each_ref().map(|file| file.to_str().unwrap());
    let usual = ["--save", "", "--bind", "127.0.0.1", "--tls-port", &of_port];
    let tls = ["--tls-ca-cert-file", authority, "--tls-cert-file", certificate, "--tls-key-file", key];
    (redis_server::Server::with(&[usual.as_slice(), &tls, settings].concat()), port)
}

/// It asks nobody for a certificate.
const OPEN: [&str; 2] = ["--tls-auth-clients", "no"];

fn trusting(authority: &str) -> RedisOptions {
    RedisOptions::new().root_certificates(fs::read(file(authority, AUTHORITY)).unwrap())
}

async fn redis_with_the_systems_roots() {
    let (_server, port) = redis_with(KNOWN, &OPEN);
    stores_and_reads(&RedisStore::connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap(), "system").await;
}

async fn redis_with_roots_of_ones_own() {
    let (_server, port) = redis_with(UNKNOWN, &OPEN);
    let store = trusting(UNKNOWN).connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap();
    stores_and_reads(&store, "own").await;
}

async fn redis_that_asks_for_a_certificate() {
    let (_server, port) = redis_with(UNKNOWN, &["--tls-auth-clients", "yes"]);
    let url = format!("rediss://127.0.0.1:{port}/");
    let [certificate, key] = [CERTIFICATE, KEY].map(|name| fs::read(file(UNKNOWN, name)).unwrap());
    let options = trusting(UNKNOWN).client_certificate(certificate, key);
    // Neither as a text nor as bytes.
    let shown = format!("{options:?}");
    assert!(!shown.contains("BEGIN") && !shown.contains("45, 45"), "a key is not shown");
    stores_and_reads(&options.connect(&url).await.unwrap(), "mutual").await;
    let error = trusting(UNKNOWN).connect(&url).await.unwrap_err();
    assert!(matches!(error, RedisOpenError::Connect { .. }), "{}", said(&error));
}

async fn redis_cluster_with_roots_of_ones_own() {
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
    let mut node = redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
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
    assert!(RedisStore::connect_cluster(&urls).await.is_err(), "the system does not know that authority");
}

async fn redis_of_an_unknown_authority() {
    let (_server, port) = redis_with(UNKNOWN, &OPEN);
    let error = RedisStore::connect(format!("rediss://127.0.0.1:{port}/")).await.unwrap_err();
    assert!(
        matches!(error, RedisOpenError::Connect { .. }) && said(&error).contains("UnknownIssuer"),
        "{}",
        said(&error)
    );
}

async fn redis_that_requires_tls() {
    let (_server, port) = redis_with(KNOWN, &OPEN);
    let error = RedisStore::connect(format!("redis://127.0.0.1:{port}/")).await.unwrap_err();
    assert!(matches!(error, RedisOpenError::Connect { .. }), "{}", said(&error));
}

/// The libraries read the system's roots where the environment says, and a process cannot safely change its own: so another one
/// runs the tests.
fn with_certificates() -> ExitCode {
    let directory = tempfile::tempdir().unwrap();
    for name in [KNOWN, UNKNOWN] {
        Certificates::new(name).write(&directory.path().join(name));
    }
    let mut tests = Command::new(env::current_exe().unwrap());
    tests.args(env::args_os().skip(1)).env(DIRECTORY, directory.path());
    tests.env(ROOTS, directory.path().join(KNOWN).join(AUTHORITY)).env_remove("SSL_CERT_DIR");
    if tests.status().unwrap().success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    if env::var_os(DIRECTORY).is_none() {
        return with_certificates();
    }
    // Where a program has several providers, rustls chooses none.
    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    let arguments = Arguments::from_args();
    let of_postgres = [
        test("postgres::roots_of_ones_own_are_trusted", postgres_with_roots_of_ones_own),
        test("postgres::the_systems_roots_are_trusted", postgres_with_the_systems_roots),
        test("postgres::an_unknown_authority_is_refused", postgres_of_an_unknown_authority),
        test("postgres::a_certificate_for_another_name_is_refused", postgres_under_another_name),
        test("postgres::that_the_server_requires_tls_is_told", postgres_that_requires_tls),
    ];
    let of_redis = [
        test("redis::the_systems_roots_are_trusted", redis_with_the_systems_roots),
        test("redis::roots_of_ones_own_are_trusted", redis_with_roots_of_ones_own),
        test("redis::a_server_that_asks_for_a_certificate_gets_it", redis_that_asks_for_a_certificate),
        test("redis::a_clusters_nodes_are_met_with_tls", redis_cluster_with_roots_of_ones_own),
        test("redis::an_unknown_authority_is_refused", redis_of_an_unknown_authority),
        test("redis::a_connection_without_tls_is_refused", redis_that_requires_tls),
    ];
    let (postgres_is_there, redis_is_there) = (postgres::is_there(), redis_server::is_there());
    // Listing is not running: a list is read by a program.
    if !arguments.list {
        let servers = [(postgres::NAME, postgres_is_there), (redis_server::NAME, redis_is_there)];
        servers.iter().filter(|(_, is_there)| !is_there).for_each(|(name, _)| left_out(name));
    }
    let flagged =
        |tests: Vec<Trial>, is_there: bool| tests.into_iter().map(move |test| test.with_ignored_flag(!is_there));
    let tests = flagged(of_postgres.into(), postgres_is_there).chain(flagged(of_redis.into(), redis_is_there));
    libtest_mimic::run(&arguments, tests.collect()).exit_code()
}

//! Certificates for tests of TLS, and a process that runs these tests.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt as _, Message};

/// The variable that names the file of the system's root certificates.
const ROOTS: &str = "SSL_CERT_FILE";
/// The variable that passes the directory of the certificates to the process that runs the tests.
const DIRECTORY: &str = "TLS_TEST_DIRECTORY";

/// Certificates whose authority is the only root of the system.
pub const KNOWN: &str = "known";
/// Certificates of an authority that is not trusted.
pub const UNKNOWN: &str = "unknown";

/// The file name of an authority's certificate.
pub const AUTHORITY: &str = "authority.pem";
/// The file name of a certificate for 127.0.0.1.
pub const CERTIFICATE: &str = "server.pem";
/// The file name of its key.
pub const KEY: &str = "server.key";

/// Runs the tests of a test file in a child process that has certificates. The main function of the file
/// calls this.
///
/// Libraries read the system's roots from the place that the environment names, and a process cannot safely
/// change its own environment. Another process therefore runs the tests, with the same arguments. It has the
/// certificates of [`KNOWN`] and [`UNKNOWN`].
pub fn with_certificates(tests: impl FnOnce() -> ExitCode) -> ExitCode {
    if env::var_os(DIRECTORY).is_some() {
        return tests();
    }
    let directory = tempfile::tempdir().unwrap();
    for name in [KNOWN, UNKNOWN] {
        Certificates::new(name).write(&directory.path().join(name));
    }
    let mut tests = Command::new(env::current_exe().unwrap());
    tests.args(env::args_os().skip(1)).env(DIRECTORY, directory.path());
    tests.env(ROOTS, directory.path().join(KNOWN).join(AUTHORITY)).env_remove("SSL_CERT_DIR");
    if tests.status().unwrap().success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the path of a file. `of` is [`KNOWN`] or [`UNKNOWN`].
#[must_use]
pub fn file(of: &str, name: &str) -> PathBuf {
    Path::new(&env::var_os(DIRECTORY).unwrap()).join(of).join(name)
}

/// Returns the content of such a file.
#[must_use]
pub fn text(of: &str, name: &str) -> String {
    fs::read_to_string(file(of, name)).unwrap()
}

/// Returns the text of an error and all its causes.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let shown = error.to_string();
        if !text.ends_with(&shown) {
            text = format!("{text}: {shown}");
        }
        cause = error.source();
    }
    text
}

/// Checks that a store can store and read a conversation.
pub async fn stores_and_reads(store: &dyn HistoryStore, conversation: &str) {
    let id = ConversationId::new(["tls", conversation]).unwrap();
    let conversation = store.conversation(&id);
    conversation.import([Message::user("Is this secret?"), Message::assistant("It is.")]).await.unwrap();
    assert_eq!(conversation.messages().await.unwrap()[1].text(), "It is.");
}

/// An authority, and a certificate for 127.0.0.1 that it has signed.
struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    fn new(name: &str) -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        // Without different names, two authorities would differ only in their signatures.
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

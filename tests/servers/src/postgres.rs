//! A PostgreSQL server.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    harness::is_without_servers,
    process::{self, Process},
};

/// The name of the server in messages about tests that are left out.
pub const NAME: &str = "PostgreSQL";

const READY: &str = "ready to accept connections";

/// The safety of the server's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash loses all data. This is fast.
    None,
    /// Committed data survive a crash, as in production.
    Full,
}

/// A server that listens at a socket in its own directory. When this is dropped or the test process ends, the
/// server is ended and the directory is removed.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    durability: Durability,
    databases: AtomicUsize,
    /// The port for TLS, if there is one.
    tls_port: Option<u16>,
    process: Option<Process>,
}

/// Returns the directory of the server's programs, if it is installed.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    process::find("initdb", &places())?.parent().map(Path::to_owned)
}

/// Returns the path of one of the client's programs.
///
/// # Panics
///
/// If it is not installed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    process::find(name, &places()).unwrap_or_else(|| panic!("{name} was not found"))
}

/// Returns the directories that may have the programs, in addition to those of the path.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<_> = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok).collect();
    places.sort_by_key(fs::DirEntry::file_name);
    let mut places: Vec<_> = places.iter().rev().map(|version| version.path().join("bin")).collect();
    let asked = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output();
    places.extend(asked.ok().map(|answer| PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim())));
    places
}

/// Returns true if the server is installed and may be used.
#[must_use]
pub fn is_available() -> bool {
    !is_without_servers() && programs().is_some()
}

/// Returns the server that the tests of this process share. It is fast, and a crash loses its data.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(Durability::None))
}

impl Server {
    /// Creates and starts a server.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn start(durability: Durability) -> Self {
        let mut server = Self::new(durability);
        server.restart();
        server
    }

    /// Creates and starts a server that also listens at a free port of the loopback interface, where it
    /// accepts only connections with TLS. The certificate and its key are PEM. A crash loses its data.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn with_tls(certificate: &str, key: &str) -> Self {
        let mut server = Self::new(Durability::None);
        let data = server.directory.join("data");
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        for (name, text) in [("server.crt", certificate), ("server.key", key), ("pg_hba.conf", rules)] {
            let file = data.join(name);
            fs::write(&file, text).unwrap();
            // The server does not use a key that other users can read.
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = other_user() {
                chown(&file, Some(user), Some(group)).unwrap();
            }
        }
        server.tls_port = process::free_ports().next();
        server.restart();
        server
    }

    fn new(durability: Durability) -> Self {
        let directory = process::directory();
        if let Some((user, group)) = other_user() {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let mut initdb = command("initdb").into_iter();
        let mut command = Command::new(initdb.next().unwrap());
        command.args(initdb).arg("-D").arg(directory.join("data")).current_dir("/");
        command.args(["-U", "test", "--auth=trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"]);
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { directory, durability, databases: AtomicUsize::new(0), tls_port: None, process: None }
    }

    /// Starts the server again after [`crash`](Self::crash).
    pub fn restart(&mut self) {
        let on = if self.durability == Durability::Full { "on" } else { "off" };
        let mut command = command("postgres");
        command.extend(["-D".into(), self.directory.join("data").display().to_string()]);
        command.extend(["-k".into(), self.directory.display().to_string()]);
        let settings = [
            "max_connections=200".to_owned(),
            format!("fsync={on}"),
            format!("full_page_writes={on}"),
            format!("synchronous_commit={on}"),
        ];
        let network = match self.tls_port {
            Some(port) => vec!["listen_addresses=127.0.0.1".into(), format!("port={port}"), "ssl=on".into()],
            None => vec!["listen_addresses=".into()],
        };
        command.extend(settings.into_iter().chain(network).flat_map(|setting| ["-c".into(), setting]));
        // SIGQUIT ends the server immediately: without a checkpoint, and with recovery at the next start.
        self.process = Some(Process::start(&command, "QUIT", &self.directory, READY));
    }

    /// Ends the server immediately, as a crash would. Its data remain for a [`restart`](Self::restart).
    pub fn crash(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop();
        }
    }

    /// Returns the directory of the socket.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the port for TLS.
    #[must_use]
    pub const fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Returns the URL of a database, at the socket.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        // The slash is the only character of the path that must be escaped in a URL.
        let host = self.directory.display().to_string().replace('/', "%2F");
        // The name of a socket contains a port.
        let port = self.tls_port.unwrap_or(5432);
        format!("postgres:///{database}?host={host}&port={port}&user=test")
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Relaxed));
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("create database {name} template template0")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
        self.url(&name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If the server is running, its process removes the directory.
        if self.process.is_none() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

/// Returns the command line of one of PostgreSQL's programs. Root runs it as another user, because PostgreSQL
/// refuses to run as root.
fn command(program: &str) -> Vec<String> {
    let program = programs().unwrap_or_else(|| panic!("{NAME} was not found")).join(program).display().to_string();
    let mut command = Vec::new();
    if let Some((user, group)) = other_user() {
        command.extend(["setpriv".into(), format!("--reuid={user}"), format!("--regid={group}")]);
        command.push("--clear-groups".into());
    }
    command.push(program);
    command
}

/// Returns the user and group that run the server, or `None` if the user of this process can.
fn other_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let answer = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8_lossy(&answer.stdout).trim().parse().unwrap()
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "nobody"]), id(&["-g", "nobody"])))
}

//! A Redis server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    harness::is_without_servers,
    process::{self, Process},
};

/// The name of the server in messages about tests that are left out.
pub const NAME: &str = "Redis (redis-server)";

// The line is "Ready to …" for a port, and "The server is now ready to …" for a socket.
const READY: &str = "eady to accept connections";

/// Settings of a server that writes nothing to disk.
pub(super) const QUICK: [&str; 4] = ["--save", "", "--appendonly", "no"];
/// Settings of a server that writes to disk before it answers.
pub(super) const DURABLE: [&str; 6] = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];

/// A server that listens at a socket in its own directory. When this is dropped or the test process ends, the
/// server is ended and the directory is removed.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    settings: Vec<String>,
    process: Option<Process>,
}

/// Returns true if the server is installed and may be used.
#[must_use]
pub fn is_available() -> bool {
    !is_without_servers() && program().is_some()
}

fn program() -> Option<PathBuf> {
    process::find("redis-server", &[])
}

impl Server {
    /// Starts a server that writes nothing to disk.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&QUICK)
    }

    /// Starts a server that writes to disk before it answers.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn durable() -> Self {
        Self::with(&DURABLE)
    }

    /// Starts a server with these command line settings. If a setting occurs twice, the last value counts.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn with<S: AsRef<str>>(settings: &[S]) -> Self {
        Self::within(process::directory(), settings)
    }

    /// Starts a server in an existing directory.
    pub(super) fn within<S: AsRef<str>>(directory: PathBuf, settings: &[S]) -> Self {
        let settings = settings.iter().map(|setting| setting.as_ref().to_owned()).collect();
        let mut server = Self { directory, settings, process: None };
        server.restart();
        server
    }

    /// Starts the server again after [`crash`](Self::crash).
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        let mut command = vec![program().unwrap().display().to_string()];
        let socket = socket(&self.directory).display().to_string();
        let directory = self.directory.display().to_string();
        command.extend(["--port", "0", "--unixsocket", &socket, "--dir", &directory].map(str::to_owned));
        command.extend(["--daemonize", "no", "--enable-debug-command", "local"].map(str::to_owned));
        command.extend(self.settings.iter().cloned());
        // SIGKILL: nothing is saved at the end, as in a crash.
        self.process = Some(Process::start(&command, "KILL", &self.directory, READY));
    }

    /// Kills the server. Its data remain for a [`restart`](Self::restart).
    pub fn crash(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop();
        }
        // The next server creates the socket again. Until then, clients must not connect to the old one.
        drop(fs::remove_file(socket(&self.directory)));
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("unix://{}", socket(&self.directory).display())
    }
}

/// Returns the socket of a server in this directory.
pub(super) fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

impl Drop for Server {
    fn drop(&mut self) {
        // If the server is running, its process removes the directory.
        if self.process.is_none() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

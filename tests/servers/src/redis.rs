//! A Redis server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    harness::is_without_servers,
    process::{self, Process},
};

/// How Redis is called where tests are left out.
pub const NAME: &str = "Redis (redis-server)";

// "Ready to …" at a port, "The server is now ready to …" at a socket.
const READY: &str = "eady to accept connections";

/// Nothing is kept on disk.
pub(super) const QUICK: [&str; 4] = ["--save", "", "--appendonly", "no"];
/// Each write is on disk before it is answered.
pub(super) const DURABLE: [&str; 6] = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];

/// A server of its own, on a socket in a directory of its own. It is ended, and the directory removed, when this is dropped or
/// the test process ends.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    settings: Vec<String>,
    process: Option<Process>,
}

/// Returns whether the server is installed, and may be used.
#[must_use]
pub fn is_there() -> bool {
    !is_without_servers() && program().is_some()
}

fn program() -> Option<PathBuf> {
    process::find("redis-server", &[])
}

impl Server {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&QUICK)
    }

    /// Starts a server that has each write on disk before it answers.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn durable() -> Self {
        Self::with(&DURABLE)
    }

    /// Starts a server with these settings, as its command line has them. One that is named twice has its last value.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start.
    #[must_use]
    pub fn with<S: AsRef<str>>(settings: &[S]) -> Self {
        Self::within(process::directory(), settings)
    }

    /// In a directory that is there already.
    pub(super) fn within<S: AsRef<str>>(directory: PathBuf, settings: &[S]) -> Self {
        let settings = settings.iter().map(|setting| setting.as_ref().to_owned()).collect();
        let mut server = Self { directory, settings, process: None };
        server.restart();
        server
    }

    /// Starts it, after [`crash`](Self::crash).
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
        // Nothing is saved at the end, as nothing would be in a crash.
        self.process = Some(Process::start(&command, "KILL", &self.directory, READY));
    }

    /// Kills it. Its data stay for a [`restart`](Self::restart).
    pub fn crash(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop();
        }
        // The next server makes it anew; until then nobody is to wait in front of it.
        drop(fs::remove_file(socket(&self.directory)));
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("unix://{}", socket(&self.directory).display())
    }
}

/// The socket of a server in that directory.
pub(super) fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

impl Drop for Server {
    fn drop(&mut self) {
        // A running server's directory is removed when its process is gone.
        if self.process.is_none() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

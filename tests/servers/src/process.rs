//! A server's process, and what ends it.

use std::{
    env,
    ffi::OsStr,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use tempfile::TempDir;

/// Runs the server, and waits for the end of its standard input, a pipe that only the test process holds: it comes when that
/// process lets go of it and also when it panics, exits or is killed, where no destructor runs.
const WATCHDOG: &str = r#"
"$@" 2>&1 </dev/null &
server=$!
while read -r line; do [ "$line" = keep ] && REMOVE=; done
kill -"$SIGNAL" "$server"
wait "$server"
[ -z "$REMOVE" ] || rm -rf -- "$REMOVE"
"#;

/// A server that runs until this is dropped, or the test process ends.
#[derive(Debug)]
pub struct Process {
    watchdog: Child,
    pipe: Option<ChildStdin>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a server and waits until it says so: a line of its output contains `ready`.
    ///
    /// It is ended by `signal` (a name without `SIG`), and then its directory is removed.
    #[must_use]
    pub fn start<A: AsRef<OsStr>>(command: &[A], signal: &str, directory: &Path, ready: &str) -> Self {
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "watchdog"]).args(command).current_dir("/");
        watchdog.env("SIGNAL", signal).env("REMOVE", directory);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own: what interrupts the tests from the keyboard must not interrupt who cleans up after them.
        watchdog.process_group(0);
        let mut watchdog = watchdog.spawn().unwrap();
        let (pipe, stdout) = (watchdog.stdin.take(), watchdog.stdout.take().unwrap());
        let said = Arc::new(Mutex::new(Vec::new()));
        let process = Self { watchdog, pipe, said: Arc::clone(&said) };
        process.wait_for(stdout, said, ready);
        process
    }

    fn wait_for(&self, stdout: ChildStdout, said: Arc<Mutex<Vec<String>>>, ready: &str) {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let keep = move |line: String| said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        loop {
            let Some(line) = lines.next() else { panic!("the server did not start: {:#?}", self.said()) };
            let is_ready = line.contains(ready);
            keep(line);
            if is_ready {
                break;
            }
        }
        // Read on, or a full pipe would hold the server up.
        thread::spawn(move || lines.for_each(keep));
    }

    /// What the server has said so far, line by line.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the server, waits until it is gone, and leaves its directory.
    pub fn stop(mut self) {
        self.pipe.take().unwrap().write_all(b"keep\n").unwrap();
        self.watchdog.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The pipe is closed, and the rest goes on by itself; waiting leaves no zombie behind.
        drop(self.pipe.take());
        drop(self.watchdog.wait());
    }
}

/// A directory for a server, with a path that leaves room for the name of a socket (108 bytes in all). Nothing removes it but
/// the server's [`Process`].
#[must_use]
pub fn directory() -> PathBuf {
    tempfile::Builder::new().prefix("history-").tempdir_in("/tmp").map(TempDir::keep).unwrap()
}

/// Ports of the loopback interface that nobody uses. Another process may take one before its server does; then the server does
/// not start, and says so.
pub fn free_ports() -> impl Iterator<Item = u16> {
    // Below the ports that a system gives to clients: one of those must not have a server's port while it restarts.
    const FIRST: u16 = 10_000;
    const PORTS: u16 = 12_000;

    let begin = RandomState::new().build_hasher().finish() % u64::from(PORTS);
    let begin = u16::try_from(begin).unwrap();
    (0..PORTS).map(move |step| FIRST + (begin + step) % PORTS).filter(|port| is_free(*port))
}

/// Returns whether nobody uses that port of the loopback interface.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// The program of that name, if it is installed: on the path, or in one of the directories.
#[must_use]
pub fn find(program: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(directories.iter().cloned());
    places.map(|place| place.join(program)).find(|program| program.is_file())
}

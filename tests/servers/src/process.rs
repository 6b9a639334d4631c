//! The process of a server, and its watchdog.

use std::{
    env,
    ffi::OsStr,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use tempfile::TempDir;

/// Runs the server, and waits for the end of its standard input. This is a pipe that only the test process
/// holds, so it ends when that process closes it, and also when the process panics, exits or is killed, and
/// runs no destructors.
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
    output: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a server and waits until it is ready, which is when a line of its output contains `ready`.
    ///
    /// The server is ended with `signal` (a name without `SIG`), and then its directory is removed.
    #[must_use]
    pub fn start<A: AsRef<OsStr>>(command: &[A], signal: &str, directory: &Path, ready: &str) -> Self {
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "watchdog"]).args(command).current_dir("/");
        watchdog.env("SIGNAL", signal).env("REMOVE", directory);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A new process group, so that an interrupt from the keyboard ends the tests but not the watchdog,
        // which cleans up.
        watchdog.process_group(0);
        let mut watchdog = watchdog.spawn().unwrap();
        let (pipe, stdout) = (watchdog.stdin.take(), watchdog.stdout.take().unwrap());
        let output = Arc::new(Mutex::new(Vec::new()));
        let process = Self { watchdog, pipe, output: Arc::clone(&output) };
        process.wait_for(stdout, output, ready);
        process
    }

    fn wait_for(&self, stdout: ChildStdout, output: Arc<Mutex<Vec<String>>>, ready: &str) {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let keep = move |line: String| output.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        loop {
            let Some(line) = lines.next() else { panic!("the server did not start: {:#?}", self.output()) };
            let is_ready = line.contains(ready);
            keep(line);
            if is_ready {
                break;
            }
        }
        // Read on: a full pipe would block the server.
        thread::spawn(move || lines.for_each(keep));
    }

    /// Returns the output of the server so far, in lines.
    #[must_use]
    pub fn output(&self) -> Vec<String> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the server and waits for that. Its directory remains.
    pub fn stop(mut self) {
        self.pipe.take().unwrap().write_all(b"keep\n").unwrap();
        self.watchdog.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog sees the closed pipe and ends the server. Waiting for it prevents a zombie process.
        drop(self.pipe.take());
        drop(self.watchdog.wait());
    }
}

/// Creates a directory for a server, with a path that leaves room for the name of a socket (108 bytes in
/// total). Only the server's [`Process`] removes it.
#[must_use]
pub fn directory() -> PathBuf {
    tempfile::Builder::new().prefix("history-").tempdir_in("/tmp").map(TempDir::keep).unwrap()
}

/// Returns free ports of the loopback interface. No other call in this process returns the same ones. If another
/// process takes one before the server does, the server does not start, and reports that.
pub fn free_ports() -> impl Iterator<Item = u16> {
    // Lower than the ports that systems give to clients: a client must not get the port of a server while
    // that server restarts. The next ones after them are those at which nodes of clusters listen to each other.
    const FIRST: u16 = 10_000;
    const PORTS: u16 = 10_000;
    /// Each process begins elsewhere.
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| (RandomState::new().build_hasher().finish() >> 1).into());

    let next = |_| NEXT.fetch_add(1, Relaxed) % u64::from(PORTS);
    (0..PORTS).map(next).map(|step| FIRST + u16::try_from(step).unwrap()).filter(|port| is_free(*port))
}

/// Returns true if this port of the loopback interface is free.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Returns the path of a program, if it is installed in `PATH` or in one of the directories.
#[must_use]
pub fn find(program: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(directories.iter().cloned());
    places.map(|place| place.join(program)).find(|program| program.is_file())
}

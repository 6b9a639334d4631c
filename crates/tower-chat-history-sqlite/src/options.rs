//! The options of a store, and the errors of opening it.

use std::{
    error::Error,
    io,
    path::{self, Path, PathBuf, is_separator},
    thread,
    time::Duration,
};

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

use crate::error::is_transient;

type BoxError = Box<dyn Error + Send + Sync>;

/// The largest number of reader threads.
const MAX_READERS: usize = 64;

/// The longest busy timeout: one hour.
const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The longest absolute path that SQLite opens, in bytes, with `-journal` appended.
pub(crate) const MAX_PATH_BYTES: usize = 512;

/// Options of a [`SqliteStore`](crate::SqliteStore). The defaults are right for most services.
///
/// ```
/// use std::time::Duration;
/// use tower_chat_history_sqlite::{SqliteOptions, Synchronous};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("chat.db");
/// let options = SqliteOptions::new().synchronous(Synchronous::Normal).busy_timeout(Duration::from_secs(1));
/// let store = options.open(path).await?;
/// # Ok(())
/// # }
/// ```
///
/// With the feature `config`, a configuration file can have the options: `synchronous` (`"full"` or `"normal"`),
/// `readers` and `busy_timeout_ms`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct SqliteOptions {
    synchronous: Synchronous,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::number::<_, _, 1, 64>"))]
    readers: usize,
    #[cfg_attr(
        feature = "config",
        serde(rename = "busy_timeout_ms", deserialize_with = "field::millis::<_, 0, 3_600_000>")
    )]
    busy_timeout: Duration,
}

impl SqliteOptions {
    /// The largest number of reader threads.
    pub const MAX_READERS: usize = MAX_READERS;
    /// The longest busy timeout: one hour.
    pub const MAX_BUSY_TIMEOUT: Duration = MAX_BUSY_TIMEOUT;

    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        Self { synchronous: Synchronous::Full, readers: cores.clamp(2, 4), busy_timeout: Duration::from_secs(5) }
    }

    /// Sets the point that a write must reach before it is acknowledged. The default is [`Synchronous::Full`].
    #[must_use]
    pub const fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets the number of reader threads, from 1 to [`MAX_READERS`](Self::MAX_READERS). Each has its own connection.
    /// The default is one per core, but at least 2 and at most 4.
    #[must_use]
    pub const fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how long a call waits for a lock that another process holds, up to
    /// [`MAX_BUSY_TIMEOUT`](Self::MAX_BUSY_TIMEOUT). After that time the call fails with
    /// [`Unavailable`](tower_chat_history_core::StoreError::Unavailable). The default is 5 seconds.
    ///
    /// Queued calls wait for the lock together with the call that is being executed, and each of them has this timeout.
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Checks the options and the path, without access to files.
    pub(crate) fn check(self, path: PathBuf) -> Result<Settings, OpenError> {
        let Self { synchronous, readers, busy_timeout } = self;

        // For these two, SQLite opens a private database that only its own connection sees.
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(OpenError::NotAFile);
        }
        if path.as_os_str().to_string_lossy().ends_with(is_separator) {
            return Err(OpenError::Directory { path });
        }
        if is_reserved(&path) {
            return Err(OpenError::ReservedName { path });
        }

        if readers == 0 || readers > MAX_READERS {
            return Err(OpenError::Readers { readers });
        }
        if busy_timeout > MAX_BUSY_TIMEOUT {
            return Err(OpenError::BusyTimeout { timeout: busy_timeout });
        }

        let file = match path::absolute(&path) {
            Ok(file) => file,
            Err(source) => return Err(OpenError::NoCurrentDirectory { path, source }),
        };
        Ok(Settings { path, file, synchronous, readers, busy_timeout })
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The point that a write must reach before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Synchronous {
    /// Waits for the disk. Acknowledged appends survive a power loss.
    #[default]
    Full,
    /// Waits for the operating system. Acknowledged appends survive a crash of the process, but the last ones may be
    /// lost if the system crashes or loses power.
    Normal,
}

/// Checked options, and the file.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The path as the caller gave it.
    pub(crate) path: PathBuf,
    /// The absolute path of the same file.
    pub(crate) file: PathBuf,
    pub(crate) synchronous: Synchronous,
    pub(crate) readers: usize,
    pub(crate) busy_timeout: Duration,
}

/// Returns `true` if SQLite would take a file of this name for the log or the journal of another database, and would
/// write or remove it.
pub(crate) fn is_reserved(path: &Path) -> bool {
    // Some file systems ignore case.
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["-wal", "-shm", "-journal"].iter().any(|suffix| name.ends_with(suffix))
}

/// An error from opening a store. A refused file is left unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path is empty or `:memory:`.
    #[error("the store needs the path of a file: use `MemoryStore` for a history in memory")]
    NotAFile,
    /// The number of readers is out of range.
    #[error("`SqliteOptions::readers` must be 1 to {MAX_READERS}, not {readers}")]
    Readers {
        /// The number that was set.
        readers: usize,
    },
    /// The busy timeout is too long.
    #[error("`SqliteOptions::busy_timeout` must be at most {MAX_BUSY_TIMEOUT:?}, not {timeout:?}")]
    BusyTimeout {
        /// The timeout that was set.
        timeout: Duration,
    },
    /// The path is relative, and the current directory is not available.
    #[error("{path}: the current directory, which this path is relative to, is not available: {source}")]
    NoCurrentDirectory {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program is linked with a version of SQLite that can corrupt databases.
    #[error("SQLite {version} can corrupt a database in WAL mode: link 3.51.3 or newer (rusqlite's feature `bundled`)")]
    UnsafeSqlite {
        /// The version of SQLite.
        version: &'static str,
    },
    /// The parent of the path does not exist, or is not a directory.
    #[error("{directory}: not a directory: it must exist before a database in it is opened")]
    NoDirectory {
        /// The path of the directory.
        directory: PathBuf,
    },
    /// The path leads to a directory.
    #[error("{path}: a directory: the store needs the path of a file")]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The name, or the one that a symbolic link leads to, ends with `-wal`, `-shm` or `-journal`. SQLite uses such
    /// names for the files next to a database.
    #[error(
        "{path}: reserved name: SQLite uses names that end with -wal, -shm or -journal for files next to a database"
    )]
    ReservedName {
        /// The path. If a symbolic link leads to such a name, the path that it leads to.
        path: PathBuf,
    },
    /// The path or the name of the file is too long for SQLite or for the file system. The name with `-journal`
    /// appended must fit too, because SQLite uses it for a file next to the database.
    #[error(
        "{path}: path too long: with -journal appended, SQLite accepts {MAX_PATH_BYTES} bytes of an absolute path, and \
         most file systems accept 255 bytes of a name"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error(
        "{path}: cannot be opened: the process must be able to read and write the file and its directory: {source}"
    )]
    CannotOpen {
        /// The path.
        path: PathBuf,
        /// The error of SQLite.
        source: BoxError,
    },
    /// The file, or one of the two files next to it (`-wal` and `-shm`), can be read but not written.
    #[error(
        "{path}: read-only: the process must be able to write the file, its directory, and the files -wal and -shm \
         next to it"
    )]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// The file is not a SQLite database.
    #[error("{path}: not a SQLite database")]
    NotADatabase {
        /// The path.
        path: PathBuf,
    },
    /// The file is a database of another application.
    #[error("{path}: a database of another application (application id {application_id})")]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The database's application id; 0 if it has none.
        application_id: i32,
    },
    /// The file was written by a newer version of this library.
    #[error("{path}: schema version {found} is newer than this library, which supports versions up to {known}")]
    NewerSchema {
        /// The path.
        path: PathBuf,
        /// The file's schema version.
        found: i32,
        /// The newest version that this library supports.
        known: i32,
    },
    /// The file cannot be used with a write-ahead log: the file system may not support it.
    #[error("{path}: cannot use a write-ahead log: the journal mode stays {mode}")]
    NoWal {
        /// The path.
        path: PathBuf,
        /// The mode that the database stays in.
        mode: String,
    },
    /// A thread could not be started.
    #[error("a thread of the store could not be started: {0}")]
    Thread(#[source] io::Error),
    /// SQLite or the file system failed in another way.
    #[error("{path}: could not be opened: {source}")]
    Sqlite {
        /// The path.
        path: PathBuf,
        /// The error of SQLite or of the operating system.
        source: BoxError,
    },
}

impl OpenError {
    /// Returns `true` if the same call may succeed later, without a change to the file, its permissions or the options:
    /// another process held a lock for longer than the busy timeout, SQLite ran out of memory or met an I/O error, or
    /// the system had no thread to spare.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Sqlite { source, .. } => source.downcast_ref().is_some_and(is_transient),
            Self::Thread(error) => error.kind() == io::ErrorKind::WouldBlock,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn reserved_names_are_refused() {
        for name in ["t.db-wal", "t-journal", "dir/t-shm", "T-WAL"] {
            assert!(matches!(SqliteOptions::new().check(name.into()), Err(OpenError::ReservedName { .. })), "{name}");
        }
        assert!(SqliteOptions::new().check("t-wal.db".into()).is_ok());
        assert!(matches!(SqliteOptions::new().check("t.db/".into()), Err(OpenError::Directory { .. })));
    }

    #[test]
    fn paths_that_are_not_files_and_values_out_of_range_are_refused() {
        let check = |options: SqliteOptions, path: &str| options.check(path.into());
        assert!(matches!(check(SqliteOptions::new(), ""), Err(OpenError::NotAFile)));
        assert!(matches!(check(SqliteOptions::new(), ":memory:"), Err(OpenError::NotAFile)));
        for readers in [0, 65] {
            let refused = check(SqliteOptions::new().readers(readers), "a.db");
            assert!(matches!(refused, Err(OpenError::Readers { .. })), "{readers}");
        }
        let too_long = SqliteOptions::new().busy_timeout(Duration::MAX);
        assert!(matches!(check(too_long, "a.db"), Err(OpenError::BusyTimeout { .. })));
        assert!(check(SqliteOptions::new().busy_timeout(Duration::ZERO), "a.db").is_ok());
    }

    #[test]
    fn sqlite_is_given_an_absolute_path() {
        for relative in ["a.db", "file:a.db", "file::memory:?cache=shared", "./:memory:", "b/../file:c.db?mode=ro"] {
            let settings = SqliteOptions::new().check(relative.into()).unwrap();
            let name = Path::new(relative).file_name();
            assert!(settings.file.is_absolute() && settings.file.file_name() == name, "{settings:?}");
            assert_eq!(settings.path, Path::new(relative));
        }
    }

    #[test]
    fn an_opening_is_retryable_if_the_failure_is_transient() {
        let failed = |code| OpenError::Sqlite { path: "chat.db".into(), source: sqlite(code).into() };
        assert!(failed(ffi::SQLITE_BUSY).is_retryable());
        assert!(failed(ffi::SQLITE_IOERR).is_retryable());
        assert!(!failed(ffi::SQLITE_FULL).is_retryable());
        assert!(!OpenError::NotADatabase { path: "chat.db".into() }.is_retryable());
        assert!(OpenError::Thread(io::ErrorKind::WouldBlock.into()).is_retryable());
    }

    #[test]
    fn errors_of_opening_begin_with_the_path_and_end_with_the_cause() {
        let error = OpenError::NotADatabase { path: "a/chat.db".into() };
        assert_eq!(error.to_string(), "a/chat.db: not a SQLite database");
        let cause = sqlite(ffi::SQLITE_IOERR);
        let expected = format!("chat.db: could not be opened: {cause}");
        assert_eq!(OpenError::Sqlite { path: "chat.db".into(), source: cause.into() }.to_string(), expected);
    }
}

#[cfg(feature = "config")]
#[cfg(test)]
mod config {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::{ConfigError, read};

    use super::*;

    fn options(settings: Value) -> Result<SqliteOptions, ConfigError> {
        read(settings)
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        assert_eq!(format!("{:?}", options(json!({})).unwrap()), format!("{:?}", SqliteOptions::new()));
    }

    #[test]
    fn all_settings_are_used() {
        let settings = json!({"synchronous": "normal", "readers": 3, "busy_timeout_ms": 250});
        let expected =
            SqliteOptions::new().synchronous(Synchronous::Normal).readers(3).busy_timeout(Duration::from_millis(250));
        assert_eq!(format!("{:?}", options(settings).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        for (settings, error) in [
            (json!({"readers": 0}), "readers: expected a number from 1 to 64"),
            (json!({"readers": 65}), "readers: expected a number from 1 to 64"),
            (json!({"busy_timeout_ms": 3_600_001}), "busy_timeout_ms: expected a number from 0 to 3600000"),
            (json!({"synchronous": "off"}), "synchronous: expected `full` or `normal`"),
        ] {
            assert_eq!(options(settings).unwrap_err().to_string(), error);
        }
        assert_eq!(options(json!({"path": "chat.db"})).unwrap_err().path, "path");
    }
}

//! The errors of opening a store.

use std::{error::Error, io, path::PathBuf, time::Duration};

use super::is_transient;
use crate::settings::{MAX_BUSY_TIMEOUT, MAX_PATH_BYTES, MAX_READERS};

type BoxError = Box<dyn Error + Send + Sync>;

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

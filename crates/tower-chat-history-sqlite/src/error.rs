//! Errors, and the classification of SQLite's failures.

use std::{error::Error, fmt, io, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::ErrorCode;
use tower_chat_history_core::StoreError;

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
    /// The path is that of a directory.
    #[error("{path}: a directory: the store needs the path of a file")]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The name, or the one that a symbolic link leads to, ends with `-wal`, `-shm` or `-journal`. SQLite gives such
    /// names to the files beside a database.
    #[error(
        "{path}: reserved name: SQLite gives names that end with -wal, -shm or -journal to files beside a database"
    )]
    ReservedName {
        /// The path. If a symbolic link leads to such a name, the path that it leads to.
        path: PathBuf,
    },
    /// The path or the name of the file is too long for SQLite or for the file system. The longest name of a file
    /// beside the database, with `-journal` appended, must fit too.
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
    /// The file, or one of the two files beside it (`-wal` and `-shm`), can be read but not written.
    #[error(
        "{path}: read-only: the process must be able to write the file, its directory, and the files -wal and -shm \
         beside it"
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
    /// Returns true if the same call may succeed later, without a change to the file, its permissions or the options:
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

/// The source of the error of each call that begins after the store was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
#[non_exhaustive]
pub struct Closed;

impl Closed {
    pub(crate) fn error() -> StoreError {
        StoreError::backend(Self)
    }
}

/// The source of the error of each call after the database file was deleted, or replaced by another file, while the
/// store had it open. The error is a [`Backend`](StoreError::Backend) error.
///
/// Open the store again. Earlier acknowledged writes are in the file that was open before. This is detected on Unix;
/// other systems do not let an open file be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database {path} was deleted or replaced while it was open: close this store and open it again")]
#[non_exhaustive]
pub struct Replaced {
    /// The absolute path of the file.
    pub path: PathBuf,
}

/// The source of the error of a call that panicked. Its writes were rolled back.
#[derive(Debug, thiserror::Error)]
#[error("a call to the store panicked")]
pub(crate) struct Panicked;

/// The error of a request: an error of the store's contract, or a failure of SQLite.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Replaced> for Failure {
    fn from(replaced: Replaced) -> Self {
        Self::Store(StoreError::backend(replaced))
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Sqlite(error) if is_transient(&error) => Self::unavailable(error),
            Failure::Sqlite(error) => Self::backend(error),
        }
    }
}

/// Returns true if another process held a lock.
pub(crate) fn is_lock(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

/// Returns true if a page could not be read, or if the file is malformed. SQLite reports both the same way: a read that
/// fails with `EIO` can appear as "malformed". So a request that fails with it is run once more.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns true if the same statement may succeed later.
fn is_transient(error: &rusqlite::Error) -> bool {
    let transient = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
        )
    );
    transient || is_lock(error)
}

/// The failure of a transaction, shared by all calls in it.
#[derive(Clone, Debug)]
pub(crate) struct TransactionFailed(Arc<rusqlite::Error>);

impl TransactionFailed {
    pub(crate) fn new(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
    }

    /// Returns true if a page could not be read, or if the file is malformed.
    pub(crate) fn is_unreadable(&self) -> bool {
        is_unreadable(&self.0)
    }

    pub(crate) fn to_store_error(&self) -> StoreError {
        if is_transient(&self.0) { StoreError::unavailable(self.clone()) } else { StoreError::backend(self.clone()) }
    }
}

impl fmt::Display for TransactionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction failed: {}", self.0)
    }
}

// Not derived: the source is SQLite's error itself, not the `Arc` around it.
impl Error for TransactionFailed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
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
    fn locks_and_io_errors_are_retryable() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_IOERR, ffi::SQLITE_PROTOCOL] {
            let error = StoreError::from(Failure::from(sqlite(code)));
            assert!(error.is_retryable(), "{error:?}");
            assert!(TransactionFailed::new(sqlite(code)).to_store_error().is_retryable());
        }
    }

    #[test]
    fn full_disks_and_damaged_files_are_not_retryable() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_CORRUPT, ffi::SQLITE_READONLY, ffi::SQLITE_CONSTRAINT] {
            let error = StoreError::from(Failure::from(sqlite(code)));
            assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
        }
    }

    #[test]
    fn the_error_of_sqlite_is_displayed_and_is_the_source() {
        let error = TransactionFailed::new(sqlite(ffi::SQLITE_FULL)).to_store_error();
        let transaction = error.source().unwrap();
        let sqlite = transaction.source().unwrap();
        assert!(sqlite.is::<rusqlite::Error>());
        assert_eq!(transaction.to_string(), format!("the transaction failed: {sqlite}"));
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

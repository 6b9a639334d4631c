//! What can go wrong, and which of it may pass.

use std::{error::Error, fmt, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::ErrorCode;
use tower_chat_history_core::StoreError;

use crate::SqliteOptions;

type BoxError = Box<dyn Error + Send + Sync>;

/// A store that was not opened. Nothing was changed in a file that is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path is empty or `:memory:`.
    #[error("the store needs a file: for a history that is kept in memory only, use MemoryStore")]
    NotAFile,
    /// The number of readers is out of range.
    #[error("a store has 1 to {max} readers, not {readers}", max = SqliteOptions::MAX_READERS)]
    Readers {
        /// How many were asked for.
        readers: usize,
    },
    /// The busy timeout is too long.
    #[error("the busy timeout is {timeout:?}, and the longest is {max:?}", max = SqliteOptions::MAX_BUSY_TIMEOUT)]
    BusyTimeout {
        /// What was asked for.
        timeout: Duration,
    },
    /// The path is relative, and the current directory is not known.
    #[error("the path {path} is relative, and the current directory cannot be found out")]
    NoCurrentDirectory {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program was linked with an SQLite that can corrupt databases.
    #[error("SQLite {version} can corrupt a database in WAL mode: link 3.51.3 or newer (rusqlite's feature `bundled`)")]
    UnsafeSqlite {
        /// Its version.
        version: &'static str,
    },
    /// The directory of the file does not exist, or is none.
    #[error("there is no directory {directory}: it must exist before the database in it is opened")]
    NoDirectory {
        /// The path of the directory.
        directory: PathBuf,
    },
    /// The path is that of a directory.
    #[error("{path} is a directory: the store needs the path of a file")]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The name, or the one that a symbolic link leads to, is one that SQLite gives to the files beside a database: it
    /// ends with `-wal`, `-shm` or `-journal`. Such a database would be another one's file.
    #[error(
        "{path} has a name that SQLite gives to a file beside a database: end it with neither -wal, -shm nor -journal"
    )]
    ReservedName {
        /// The path; where a symbolic link leads to such a name, the one that it leads to.
        path: PathBuf,
    },
    /// The path or the name of the file is too long, for SQLite or for the file system. One of the files beside a
    /// database has eight bytes more in its name (`-journal`), and must have room too.
    #[error(
        "the path {path} is too long: with -journal behind it, SQLite takes {max} bytes of an absolute path, and most \
         file systems take 255 bytes of a name",
        max = crate::connection::LONGEST_PATH
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error(
        "the database {path} could not be opened: the process must be able to read and write the file and its directory"
    )]
    CannotOpen {
        /// The path.
        path: PathBuf,
        /// What SQLite said.
        source: BoxError,
    },
    /// The file, or one of the two files beside it (`-wal` and `-shm`), can be read and not written.
    #[error(
        "the database {path} is read-only: the process must be able to write the file, its directory, and the files \
         -wal and -shm beside it"
    )]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// The file is no SQLite database.
    #[error("the file {path} is no SQLite database")]
    NotADatabase {
        /// The path.
        path: PathBuf,
    },
    /// The file is a database of another application.
    #[error("the database {path} belongs to another application (application id {application_id})")]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The application id it carries; 0 if none.
        application_id: i32,
    },
    /// The file was written by a newer version of this library.
    #[error("the database {path} has schema version {found}, and this library knows up to {known}")]
    NewerSchema {
        /// The path.
        path: PathBuf,
        /// The file's version.
        found: i32,
        /// The newest version this library knows.
        known: i32,
    },
    /// The file cannot be used with a write-ahead log: the file system may not support it.
    #[error("the database {path} stays in journal mode {mode} and cannot use a write-ahead log")]
    NoWal {
        /// The path.
        path: PathBuf,
        /// The mode it stays in.
        mode: String,
    },
    /// A thread could not be started.
    #[error("a thread of the store could not be started")]
    Thread(#[source] std::io::Error),
    /// SQLite or the file system failed in another way.
    #[error("the database {path} could not be opened")]
    Sqlite {
        /// The path.
        path: PathBuf,
        /// What SQLite or the system said.
        source: BoxError,
    },
}

/// The store was closed: the source of the error of each later call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
#[non_exhaustive]
pub struct Closed;

impl Closed {
    pub(crate) fn error() -> StoreError {
        StoreError::backend(Self)
    }
}

/// The database file was deleted, or another one took its place, while the store had it open: the source of the error
/// of each call from then on ([`Backend`](StoreError::Backend)). What was acknowledged before is in the file that was
/// there.
///
/// The store has to be opened again. It is noticed on Unix; other systems do not let an open file be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database {path} was deleted or replaced while it was open: close this store and open it again")]
#[non_exhaustive]
pub struct Replaced {
    /// The absolute path of the file.
    pub path: PathBuf,
}

/// A call hit a bug. Its transaction was rolled back.
#[derive(Debug, thiserror::Error)]
#[error("a call to the store panicked")]
pub(crate) struct Panicked;

/// What stops a request: a refusal that the contract knows, or SQLite.
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
            Failure::Sqlite(error) if may_pass(&error) => Self::unavailable(error),
            Failure::Sqlite(error) => Self::backend(error),
        }
    }
}

/// Whether another process held a lock.
pub(crate) fn is_lock(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

/// Whether a page could not be read, or the file is malformed. SQLite says the same of both: a read that fails with EIO
/// is "malformed" to it. So what could not be read is tried once more before it is taken for damaged.
pub(crate) fn is_unread(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether the same statement may succeed a little later.
fn may_pass(error: &rusqlite::Error) -> bool {
    let passing = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
        )
    );
    passing || is_lock(error)
}

/// The failure of a transaction, told to each of the calls that shared it.
#[derive(Clone, Debug)]
pub(crate) struct TransactionFailed(Arc<rusqlite::Error>);

impl TransactionFailed {
    pub(crate) fn new(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
    }

    /// Whether a page could not be read, or the file is malformed.
    pub(crate) fn is_unread(&self) -> bool {
        is_unread(&self.0)
    }

    pub(crate) fn to_store_error(&self) -> StoreError {
        if may_pass(&self.0) { StoreError::unavailable(self.clone()) } else { StoreError::backend(self.clone()) }
    }
}

impl fmt::Display for TransactionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transaction failed")
    }
}

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
    fn locks_and_input_output_may_pass() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_IOERR, ffi::SQLITE_PROTOCOL] {
            let error = StoreError::from(Failure::from(sqlite(code)));
            assert!(error.is_retryable(), "{error:?}");
            assert!(TransactionFailed::new(sqlite(code)).to_store_error().is_retryable());
        }
    }

    #[test]
    fn full_disks_and_damaged_files_do_not_pass() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_CORRUPT, ffi::SQLITE_READONLY, ffi::SQLITE_CONSTRAINT] {
            let error = StoreError::from(Failure::from(sqlite(code)));
            assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
        }
    }

    #[test]
    fn what_sqlite_said_is_kept_as_source() {
        let error = TransactionFailed::new(sqlite(ffi::SQLITE_FULL)).to_store_error();
        let transaction = error.source().unwrap();
        assert!(transaction.source().unwrap().is::<rusqlite::Error>());
    }
}

//! What can go wrong, and which of it may pass.

use std::{error::Error, fmt, sync::Arc, time::Duration};

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
    /// The program was linked with an SQLite that can corrupt databases.
    #[error("SQLite {version} can corrupt a database in WAL mode: link 3.51.3 or newer (rusqlite's feature `bundled`)")]
    UnsafeSqlite {
        /// Its version.
        version: &'static str,
    },
    /// The file is no SQLite database.
    #[error("the file is no SQLite database")]
    NotADatabase,
    /// The file is a database of another application.
    #[error("the file is another application's database (application id {application_id})")]
    Foreign {
        /// The application id it carries; 0 if none.
        application_id: i32,
    },
    /// The file was written by a newer version of this library.
    #[error("the database has schema version {found}, and this library knows up to {known}")]
    NewerSchema {
        /// The file's version.
        found: i32,
        /// The newest version this library knows.
        known: i32,
    },
    /// The file cannot be used with a write-ahead log: the file system may not support it.
    #[error("the database stays in journal mode {mode} and cannot use a write-ahead log")]
    NoWal {
        /// The mode it stays in.
        mode: String,
    },
    /// A thread could not be started.
    #[error("a thread of the store could not be started")]
    Thread(#[source] std::io::Error),
    /// SQLite failed.
    #[error("the database could not be opened")]
    Sqlite {
        /// What SQLite said.
        source: BoxError,
    },
}

impl OpenError {
    /// Whether another process held a lock.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::Sqlite { source } = self else { return false };
        matches!(
            source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
        )
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase,
            _ => Self::Sqlite { source: error.into() },
        }
    }
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

/// Whether the same statement may succeed a little later.
fn may_pass(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
        )
    )
}

/// The failure of a transaction, told to each of the calls that shared it.
#[derive(Clone, Debug)]
pub(crate) struct TransactionFailed(Arc<rusqlite::Error>);

impl TransactionFailed {
    pub(crate) fn new(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
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

//! The errors of calls, and the classification of SQLite's failures.

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use rusqlite::ErrorCode;
use tower_chat_history_core::StoreError;

/// The source of the [`Backend`](StoreError::Backend) error of a call that the store could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The store was [closed](crate::SqliteStore::close).
    #[error("the store is closed")]
    Closed,
    /// The database file was deleted or replaced while the store had it open.
    ///
    /// To continue, open the store again. The acknowledged writes up to then are in the deleted or replaced file. This
    /// is detected on Unix; other systems do not let an open file be replaced.
    #[error("the database {path} was deleted or replaced while it was open: close this store and open it again")]
    Replaced {
        /// The absolute path of the file.
        path: PathBuf,
    },
}

impl SqliteError {
    pub(crate) fn closed() -> StoreError {
        StoreError::backend(Self::Closed)
    }
}

/// A call panicked. Its writes were rolled back.
#[derive(Debug, thiserror::Error)]
#[error("a call to the store panicked")]
pub(crate) struct CallPanic;

/// A trigger of the database's owner prevented that a row was written, without an error.
#[derive(Debug, thiserror::Error)]
#[error("the database did not write a row: it has a trigger that this store did not create")]
pub(crate) struct UnwrittenRow;

impl UnwrittenRow {
    /// Checks the number of rows that a statement wrote.
    pub(crate) fn check(rows: usize) -> Result<(), StoreError> {
        if rows == 1 { Ok(()) } else { Err(StoreError::backend(Self)) }
    }
}

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

impl From<SqliteError> for Failure {
    fn from(replaced: SqliteError) -> Self {
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

/// Returns `true` if another process held a lock.
pub(crate) fn is_lock(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

/// Returns `true` if a page could not be read, or if the file is malformed. SQLite does not always distinguish the two:
/// it can report a read that failed with `EIO` as "malformed". A request that fails in this way is therefore run once
/// more.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Returns `true` if the same statement may succeed later.
pub(crate) fn is_transient(error: &rusqlite::Error) -> bool {
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
pub(crate) struct TransactionError(Arc<rusqlite::Error>);

impl TransactionError {
    pub(crate) fn new(error: rusqlite::Error) -> Self {
        Self(Arc::new(error))
    }

    /// Returns `true` if a page could not be read, or if the file is malformed.
    pub(crate) fn is_unreadable(&self) -> bool {
        is_unreadable(&self.0)
    }

    pub(crate) fn to_store_error(&self) -> StoreError {
        if is_transient(&self.0) { StoreError::unavailable(self.clone()) } else { StoreError::backend(self.clone()) }
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction failed: {}", self.0)
    }
}

// Not derived: the source is SQLite's error itself, not the `Arc` around it.
impl Error for TransactionError {
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
            assert!(TransactionError::new(sqlite(code)).to_store_error().is_retryable());
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
        let error = TransactionError::new(sqlite(ffi::SQLITE_FULL)).to_store_error();
        let transaction = error.source().unwrap();
        let sqlite = transaction.source().unwrap();
        assert!(sqlite.is::<rusqlite::Error>());
        assert_eq!(transaction.to_string(), format!("the transaction failed: {sqlite}"));
    }
}

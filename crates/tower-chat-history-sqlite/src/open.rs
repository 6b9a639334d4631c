//! Opening a store.

use std::{path::Path, sync::Arc};

use crate::{error::OpenError, options::SqliteOptions, store::SqliteStore, write};

impl SqliteOptions {
    /// Opens the file, and creates it if it does not exist. Its directory must exist.
    ///
    /// The path always names a file, even if it begins with `file:`. A relative path is resolved against the current
    /// directory now: changing the directory later does not matter. Names that end with `-wal`, `-shm` or `-journal`
    /// are refused, also where a symbolic link leads to such a name, because SQLite gives these names to the files
    /// beside a database.
    ///
    /// A refused file is left unchanged, with its write-ahead log and its journal. One exception: the index of the log
    /// (`-shm`) may be created or written if another process uses the database, or if only the log shows that the
    /// schema is newer.
    ///
    /// # Errors
    ///
    /// Returns an [`OpenError`] if an option is out of range, or if the file is not a database of this library, or
    /// cannot be read and written.
    pub async fn open(self, path: impl AsRef<Path> + Send) -> Result<SqliteStore, OpenError> {
        let settings = self.check(path.as_ref().to_owned())?;
        let path = settings.file.clone();
        let opened = write::spawn(settings).map_err(OpenError::Thread)?;
        // The thread always replies, unless it panicked.
        let shared = opened.await.unwrap_or_else(|closed| Err(OpenError::Sqlite { path, source: closed.into() }))?;
        Ok(SqliteStore::new(Arc::new(shared)))
    }
}

impl SqliteStore {
    /// Opens the file with the default [options](SqliteOptions), and creates it if it does not exist. Its directory
    /// must exist.
    ///
    /// # Errors
    ///
    /// Returns an [`OpenError`] if the file is not a database of this library, or cannot be read and written.
    pub async fn open(path: impl AsRef<Path> + Send) -> Result<Self, OpenError> {
        SqliteOptions::new().open(path).await
    }
}

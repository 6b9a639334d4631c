//! Opening a store.

use std::{path::Path, sync::Arc};

use crate::{error::OpenError, options::SqliteOptions, store::SqliteStore, write};

impl SqliteOptions {
    /// Opens the file, and creates it if it does not exist. Its directory must exist.
    ///
    /// The path always names a file, even if it begins with `file:`. A relative path is resolved once, when this method
    /// is called. Changing the current directory later has no effect. Names that end with `-wal`, `-shm` or `-journal`
    /// are refused, because SQLite uses such names for the files next to a database. A symbolic link to such a name is
    /// refused too.
    ///
    /// A refused file is left unchanged, with its write-ahead log and its journal. There is one exception: if another
    /// process uses the database, or if only the log shows that the schema is newer, the index of the log (`-shm`) may
    /// be created or written.
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

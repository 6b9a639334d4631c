//! How a store is opened.

use std::{
    path::{self, Path, PathBuf, is_separator},
    thread,
    time::Duration,
};

use crate::{OpenError, SqliteStore};

/// What a write waits for before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// Until the disk has it: acknowledged appends survive a loss of power.
    #[default]
    Full,
    /// Until the operating system has it: acknowledged appends survive a crash of the process, but the last ones may be
    /// lost when the system crashes or loses power.
    Normal,
}

/// Options of a [`SqliteStore`]. The defaults are right for most services.
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
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    synchronous: Synchronous,
    readers: usize,
    busy_timeout: Duration,
}

/// Checked options, and the file.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The path as it was given.
    pub(crate) path: PathBuf,
    /// The absolute path of the same file.
    pub(crate) file: PathBuf,
    pub(crate) synchronous: Synchronous,
    pub(crate) readers: usize,
    pub(crate) busy_timeout: Duration,
}

impl SqliteOptions {
    /// The most threads that may read.
    pub const MAX_READERS: usize = 64;
    /// The longest time to wait for another process's lock: one hour.
    pub const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(3_600);

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        Self { synchronous: Synchronous::Full, readers: cores.clamp(2, 4), busy_timeout: Duration::from_secs(5) }
    }

    /// What a write waits for. The default is [`Synchronous::Full`].
    #[must_use]
    pub const fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How many threads read, each with a connection of its own: 1 to [`MAX_READERS`](Self::MAX_READERS). The default is
    /// one a core, but at least 2 and at most 4.
    #[must_use]
    pub const fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how long a call waits for a lock that another process holds, up to
    /// [`MAX_BUSY_TIMEOUT`](Self::MAX_BUSY_TIMEOUT). After that time the call fails with
    /// [`Unavailable`](tower_chat_history_core::StoreError::Unavailable). The default is 5 seconds.
    ///
    /// Calls that are queued while others wait for the lock wait at the same time, each for this long.
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Opens the file, and creates it if it is not there. Its directory must exist.
    ///
    /// The path is the name of a file, also if it begins with `file:`. Names that SQLite gives to the files beside a database
    /// (`-wal`, `-shm`, `-journal` at their end) are refused, also where a symbolic link leads to such a name. A
    /// relative path is that of a file in the current directory as it is now: changing the directory later does not
    /// matter.
    ///
    /// A file that is refused is left as it is, with its log and its journal. (SQLite's index of a log, `-shm`, can be made
    /// or written where others have the database in use, or where only the log says that its schema is a newer one.)
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists: options out of range, a file that is something else or cannot be opened or written.
    pub async fn open(self, path: impl AsRef<Path> + Send) -> Result<SqliteStore, OpenError> {
        let path = path.as_ref().to_owned();
        SqliteStore::start(self.check(path)?).await
    }

    fn check(self, path: PathBuf) -> Result<Settings, OpenError> {
        let Self { synchronous, readers, busy_timeout } = self;
        // SQLite opens a private database for these two, which is gone with its connection: readers would see nothing.
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(OpenError::NotAFile);
        }
        if path.as_os_str().to_string_lossy().ends_with(is_separator) {
            return Err(OpenError::Directory { path });
        }
        if is_reserved(&path) {
            return Err(OpenError::ReservedName { path });
        }
        if readers == 0 || readers > Self::MAX_READERS {
            return Err(OpenError::Readers { readers });
        }
        if busy_timeout > Self::MAX_BUSY_TIMEOUT {
            return Err(OpenError::BusyTimeout { timeout: busy_timeout });
        }
        let file = match path::absolute(&path) {
            Ok(file) => file,
            Err(source) => return Err(OpenError::NoCurrentDirectory { path, source }),
        };
        Ok(Settings { path, file, synchronous, readers, busy_timeout })
    }
}

/// Whether SQLite would take a file of that name for the log or the journal of another database, write it, or remove it.
pub(crate) fn is_reserved(path: &Path) -> bool {
    // Some file systems do not tell large from small letters.
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["-wal", "-shm", "-journal"].iter().any(|suffix| name.ends_with(suffix))
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_beside_a_database_is_refused() {
        for name in ["t.db-wal", "t-journal", "dir/t-shm", "T-WAL"] {
            assert!(matches!(SqliteOptions::new().check(name.into()), Err(OpenError::ReservedName { .. })), "{name}");
        }
        assert!(SqliteOptions::new().check("t-wal.db".into()).is_ok());
        assert!(matches!(SqliteOptions::new().check("t.db/".into()), Err(OpenError::Directory { .. })));
    }

    #[test]
    fn refuses_what_is_no_file_or_out_of_range() {
        let check = |options: SqliteOptions, path: &str| options.check(path.into());
        assert!(matches!(check(SqliteOptions::new(), ""), Err(OpenError::NotAFile)));
        assert!(matches!(check(SqliteOptions::new(), ":memory:"), Err(OpenError::NotAFile)));
        for readers in [0, 65] {
            let refused = check(SqliteOptions::new().readers(readers), "a.db");
            assert!(matches!(refused, Err(OpenError::Readers { .. })), "{readers}");
        }
        let forever = SqliteOptions::new().busy_timeout(Duration::MAX);
        assert!(matches!(check(forever, "a.db"), Err(OpenError::BusyTimeout { .. })));
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
}

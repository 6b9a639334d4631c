//! The options of a store.

use std::{
    path::{self, PathBuf, is_separator},
    thread,
    time::Duration,
};

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

use crate::{
    error::OpenError,
    settings::{MAX_BUSY_TIMEOUT, MAX_READERS, Settings, Synchronous, is_reserved},
};

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

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

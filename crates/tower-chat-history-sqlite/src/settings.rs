//! The settings that a store is opened with, and their limits.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The largest number of reader threads.
pub(crate) const MAX_READERS: usize = 64;

/// The longest busy timeout: one hour.
pub(crate) const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The longest absolute path that SQLite opens, in bytes, with `-journal` appended.
pub(crate) const MAX_PATH_BYTES: usize = 512;

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

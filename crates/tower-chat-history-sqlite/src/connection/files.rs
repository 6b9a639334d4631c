//! The names and sizes of a database's files, examined before anything is opened.
//!
//! Only metadata is read. If this process opened and closed the file with plain file functions, it would lose the locks
//! that its other connections hold on the file.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use super::Refusal;
use crate::settings::{MAX_PATH_BYTES, is_reserved};

/// The largest number of symbolic links that SQLite follows.
const MAX_LINKS: usize = 200;

/// The size of the header that every database begins with, except an empty one.
const HEADER_BYTES: u64 = 100;

/// The longest suffix that SQLite appends to a database's name for its other files.
const LONGEST_SUFFIX: &str = "-journal";

/// The state of the files of a database that is to be opened.
#[derive(Debug)]
pub(super) struct Files {
    /// The database file is not empty.
    pub(super) has_content: bool,
    /// The write-ahead log is not empty.
    pub(super) has_log: bool,
}

impl Files {
    /// Examines the files of the database at this absolute path.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not allowed for a database, or if the file is too short to be a database.
    pub(super) fn at(path: &Path) -> Result<Self, Refusal> {
        // If the path is a link, SQLite creates the other files next to the link's target.
        let real = followed(path);
        if is_reserved(&real) {
            return Err(Refusal::ReservedName { real });
        }
        if is_too_long(&sibling(&real, LONGEST_SUFFIX)) {
            return Err(Refusal::TooLong);
        }
        let size = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
        let len = size(&real);
        // SQLite treats a file of one byte as empty and overwrites it.
        if (1..HEADER_BYTES).contains(&len) {
            return Err(Refusal::NotADatabase);
        }
        Ok(Self { has_content: len > 0, has_log: size(&sibling(&real, "-wal")) > 0 })
    }
}

/// Follows symbolic links at the end of the path. The target need not exist.
fn followed(path: &Path) -> PathBuf {
    let mut real = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&real) else { break };
        real.pop();
        real.push(target);
    }
    real
}

/// Appends a suffix to a database's path, for a file next to it.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns `true` if the path, or a name in it, is too long for the file system.
fn is_too_long(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
}

/// Returns `true` if the path, with its links resolved, is too long for SQLite.
pub(super) fn is_too_long_for_sqlite(path: &Path) -> bool {
    let real = followed(path);
    let directory = real.parent().and_then(|directory| fs::canonicalize(directory).ok());
    let real = match (directory, real.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => real,
    };
    real.as_os_str().len() + LONGEST_SUFFIX.len() > MAX_PATH_BYTES
}

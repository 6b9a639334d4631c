//! The files of a database: what is found before anything is opened, why a file is refused, and if the open file is
//! still the one at its path.
//!
//! Only metadata is read. If this process opened and closed the file with plain file functions, it would lose the locks
//! that its other connections hold on the file.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

use crate::{
    error::{SqliteError, is_lock},
    options::{MAX_PATH_BYTES, OpenError, is_reserved},
};

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

        // SQLite treats a file of one byte as empty and overwrites it.
        let len = size(&real);
        if (1..HEADER_BYTES).contains(&len) {
            return Err(Refusal::NotADatabase);
        }

        let has_log = size(&sibling(&real, "-wal")) > 0;
        Ok(Self { has_content: len > 0, has_log })
    }
}

/// Returns the size of the file in bytes; 0 if there is none.
fn size(path: &Path) -> u64 {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) | Err(_) => 0,
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
fn is_too_long_for_sqlite(path: &Path) -> bool {
    let real = followed(path);
    let directory = real.parent().and_then(|directory| fs::canonicalize(directory).ok());

    let real = match (directory, real.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => real,
    };
    real.as_os_str().len() + LONGEST_SUFFIX.len() > MAX_PATH_BYTES
}

/// The reason why a file cannot be used: an [`OpenError`] without its path.
#[derive(Debug)]
pub(crate) enum Refusal {
    Foreign { application_id: i32 },
    NewerSchema { found: i32, known: i32 },
    NoWal { mode: String },
    ReadOnly,
    NotADatabase,
    ReservedName { real: PathBuf },
    TooLong,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Refusal {
    /// Returns `true` if another process held a lock.
    pub(super) fn is_lock(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_lock(error))
    }

    /// Returns the error for the file at this path.
    pub(super) fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Foreign { application_id } => OpenError::Foreign { path, application_id },
            Self::NewerSchema { found, known } => OpenError::NewerSchema { path, found, known },
            Self::NoWal { mode } => OpenError::NoWal { path, mode },
            Self::ReadOnly => OpenError::ReadOnly { path },
            Self::NotADatabase => OpenError::NotADatabase { path },
            Self::ReservedName { real } => OpenError::ReservedName { path: real },
            Self::TooLong => OpenError::TooLong { path },
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
                Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
                Some(ErrorCode::CannotOpen) => cannot_open(&path, error),
                _ => OpenError::Sqlite { path, source: error.into() },
            },
        }
    }
}

/// Asks the file system for the reason: SQLite reports only that the file cannot be opened.
fn cannot_open(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    if is_directory(&path).unwrap_or(false) {
        return OpenError::Directory { path };
    }
    if is_too_long_for_sqlite(&path) {
        return OpenError::TooLong { path };
    }

    if let Some(directory) = path.parent() {
        let is_missing = match is_directory(directory) {
            Ok(is_directory) => !is_directory,
            // Without permission to look, the directory may exist.
            Err(why) => why.kind() != io::ErrorKind::PermissionDenied,
        };
        if is_missing {
            return OpenError::NoDirectory { directory: directory.to_owned() };
        }
    }
    OpenError::CannotOpen { path, source: error.into() }
}

fn is_directory(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|metadata| metadata.is_dir())
}

/// The file that the store has open.
///
/// SQLite continues to use the file that it opened, even if another file or none is at its path. Writes to it would
/// then be lost when it is closed.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    /// `None` on systems where files have no stable identity.
    identity: Option<Identity>,
}

/// The device and the inode of a file.
type Identity = (u64, u64);

impl DatabaseFile {
    /// Identifies the file that is at this path now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&fs::metadata(path)?) })
    }

    /// Checks that the file is still at its path. It costs one system call.
    ///
    /// # Errors
    ///
    /// Returns an error if another file or none is there. If the metadata cannot be read, the file counts as unchanged.
    pub(crate) fn check(&self) -> Result<(), SqliteError> {
        let replaced = match fs::metadata(&self.path) {
            Ok(now) => identity(&now) != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if replaced { Err(SqliteError::Replaced { path: self.path.clone() }) } else { Ok(()) }
    }
}

// An option, because other systems have no identity.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Other systems do not let a file be replaced while it is open.
#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> Option<Identity> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_and_a_missing_file_are_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let other = directory.path().join("b");
        fs::write(&path, "a").unwrap();
        let opened = DatabaseFile::at(&path).unwrap();
        opened.check().unwrap();
        fs::write(&path, "other content").unwrap();
        opened.check().unwrap();

        fs::rename(&path, &other).unwrap();
        assert_eq!(opened.check(), Err(SqliteError::Replaced { path: path.clone() }));
        fs::copy(&other, &path).unwrap();
        assert!(opened.check().is_err());
        fs::rename(&other, &path).unwrap();
        opened.check().unwrap();
    }
}

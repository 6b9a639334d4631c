//! The names of a database's files, and what they say before anything is opened.
//!
//! Only the file system is asked: a file that was opened and closed by other means than SQLite's would lose the locks
//! that other connections of this process hold on it.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use super::Refused;
use crate::options::is_reserved;

/// The longest path that SQLite opens, with `-journal` behind it, in bytes.
pub(crate) const LONGEST_PATH: usize = 512;

/// The most symbolic links that SQLite follows.
const MOST_LINKS: usize = 200;

/// The size of the header that every database begins with, but an empty one.
const HEADER: u64 = 100;

/// The longest ending of the files beside a database.
const JOURNAL: &str = "-journal";

/// The files of a database that is to be opened.
#[derive(Debug)]
pub(super) struct Files {
    /// There is something in the database itself.
    pub(super) is_begun: bool,
    /// There is something in its write-ahead log.
    pub(super) has_log: bool,
}

impl Files {
    /// Looks at the files of the database at that absolute path.
    ///
    /// # Errors
    ///
    /// When the name cannot be that of a database, or the file is too short to be one.
    pub(super) fn at(path: &Path) -> Result<Self, Refused> {
        // SQLite puts its files beside the one that a link leads to.
        let real = followed(path);
        if is_reserved(&real) {
            return Err(Refused::ReservedName { real });
        }
        if is_too_long(&beside(&real, JOURNAL)) {
            return Err(Refused::TooLong);
        }
        let size = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
        let len = size(&real);
        // SQLite takes a file of one byte for an empty one, and writes over it.
        if (1..HEADER).contains(&len) {
            return Err(Refused::NotADatabase);
        }
        Ok(Self { is_begun: len > 0, has_log: size(&beside(&real, "-wal")) > 0 })
    }
}

/// The path that symbolic links at the end of this one lead to, whether there is a file or not.
fn followed(path: &Path) -> PathBuf {
    let mut real = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&real) else { break };
        real.pop();
        real.push(target);
    }
    real
}

/// The path of the file with that ending beside a database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Returns true if the file system finds that path, or a name in it, too long.
fn is_too_long(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
}

/// Returns true if SQLite finds that path too long: it looks at the one without links.
pub(super) fn is_too_long_for_sqlite(path: &Path) -> bool {
    let real = followed(path);
    let directory = real.parent().and_then(|directory| fs::canonicalize(directory).ok());
    let real = match (directory, real.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => real,
    };
    real.as_os_str().len() + JOURNAL.len() > LONGEST_PATH
}

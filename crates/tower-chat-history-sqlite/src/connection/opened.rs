//! The open file, and the check that it is still the one at its path.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::error::Replaced;

/// The file that the store has open.
///
/// SQLite continues to use the file that it opened, even if another file or none is at its path. Writes to it would
/// then be lost when it is closed.
#[derive(Clone, Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    /// `None` on systems where files have no stable identity.
    identity: Option<Identity>,
}

/// The device and the inode of a file.
type Identity = (u64, u64);

impl OpenedFile {
    /// Identifies the file that is at this path now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&fs::metadata(path)?) })
    }

    /// Checks that the file is still at its path. It costs one system call.
    ///
    /// # Errors
    ///
    /// Returns an error if another file or none is there. If the metadata cannot be read, the file counts as unchanged.
    pub(crate) fn check(&self) -> Result<(), Replaced> {
        let replaced = match fs::metadata(&self.path) {
            Ok(now) => identity(&now) != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if replaced { Err(Replaced { path: self.path.clone() }) } else { Ok(()) }
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
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&path, "a").unwrap();
        let opened = OpenedFile::at(&path).unwrap();
        opened.check().unwrap();
        fs::write(&path, "other content").unwrap();
        opened.check().unwrap();
        fs::rename(&path, &other).unwrap();
        assert_eq!(opened.check().unwrap_err().path, path);
        fs::copy(&other, &path).unwrap();
        assert!(opened.check().is_err());
        fs::rename(&other, &path).unwrap();
        opened.check().unwrap();
    }
}

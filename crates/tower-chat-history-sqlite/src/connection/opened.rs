//! Which file is open, and whether it is still the one at its path.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::Replaced;

/// The file that the store has open.
///
/// SQLite goes on with the file that it opened, also when another file or none is at its path. What is written into it
/// then is gone as soon as it is closed.
#[derive(Clone, Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    /// `None` where the system does not tell files apart.
    identity: Option<Identity>,
}

/// The device and the number of the file on it.
type Identity = (u64, u64);

impl OpenedFile {
    /// The file that is at this path now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&fs::metadata(path)?) })
    }

    /// Checks that the file is still at its path. It costs one system call.
    ///
    /// # Errors
    ///
    /// When another file or none is there. Where the path cannot be looked at, nothing is known, and that is no error.
    pub(crate) fn check(&self) -> Result<(), Replaced> {
        let replaced = match fs::metadata(&self.path) {
            Ok(now) => identity(&now) != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if replaced { Err(Replaced { path: self.path.clone() }) } else { Ok(()) }
    }
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // Other systems have none.
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
    fn another_file_and_none_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&path, "a").unwrap();
        let opened = OpenedFile::at(&path).unwrap();
        opened.check().unwrap();
        fs::write(&path, "what is in it does not matter").unwrap();
        opened.check().unwrap();
        fs::rename(&path, &other).unwrap();
        assert_eq!(opened.check().unwrap_err().path, path);
        fs::copy(&other, &path).unwrap();
        assert!(opened.check().is_err());
        fs::rename(&other, &path).unwrap();
        opened.check().unwrap();
    }
}

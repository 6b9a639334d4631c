//! Files that a command reads and writes.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// Returns `true` if two paths name the same file, also by symbolic links, and by hard links of a regular file. A file
/// need not exist.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let is_same_path = resolved(one).is_some_and(|one| resolved(other) == Some(one));
    // The files are opened to compare them. Opening a named pipe can block until another program opens it, and closing
    // it again can end that program's transfer.
    is_same_path || is_file(one) && is_file(other) && same_file::is_same_file(one, other).unwrap_or(false)
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Returns the path without links, or `None` if its directory does not exist. The file need not exist.
fn resolved(path: &Path) -> Option<PathBuf> {
    let in_directory = || {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        Some(fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(in_directory)
}

/// Creates a file that only its owner can read, where files have owners. An existing file keeps its rights.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits until what was written is on the disk. Does nothing for a pipe or a device, because these have no disk.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
}

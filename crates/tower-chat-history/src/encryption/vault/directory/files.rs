//! The files of a vault. All functions here block.

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{
    super::{EntryId, entry::Entry},
    smallest::Smallest,
};
use crate::encryption::key::KeyError;

/// The file that a writer locks. Readers do not lock it, because entries are replaced whole.
const LOCK: &str = "lock";

/// The file that is written, and then renamed.
const NEW: &str = "new";

/// The end of the name of an entry's file.
const ENDING: &str = ".json";

/// The time for which a call waits for the lock. A writer has it for milliseconds.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The time between two attempts to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The directory of a vault.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
    pub(super) lock_limit: Duration,
    /// Makes renames and removals in the directory durable.
    sync: fn(&Path) -> io::Result<()>,
}

impl Files {
    /// Opens the directory. If it does not exist, it is created, and on Unix only its owner can read it.
    pub(super) fn open(directory: PathBuf) -> Result<Self, KeyError> {
        let files = Self { directory, lock_limit: LOCK_LIMIT, sync };
        create(&files.directory).map_err(KeyError::failed)?;
        let _lock = files.lock()?;
        files.remove_unfinished().map_err(KeyError::failed)?;
        Ok(files)
    }

    fn path(&self, of: &EntryId) -> PathBuf {
        self.directory.join(format!("{of}{ENDING}"))
    }

    /// Reads an entry, and makes sure that it is durable. Another call may have renamed its file just now, or may have
    /// failed after the rename. A key that could still be lost must not seal anything.
    pub(super) fn read(&self, of: &EntryId) -> Result<Entry, KeyError> {
        match fs::read(self.path(of)) {
            Ok(json) => {
                (self.sync)(&self.directory).map_err(KeyError::unavailable)?;
                Entry::decode(&json)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Entry::default()),
            Err(error) => Err(KeyError::unavailable(error)),
        }
    }

    /// Changes an entry while it has the lock. The entry is written if `change` returns `true`.
    pub(super) fn change(&self, of: &EntryId, change: impl FnOnce(&mut Entry) -> bool) -> Result<bool, KeyError> {
        let _lock = self.lock()?;
        let mut entry = self.read(of)?;
        if !change(&mut entry) {
            return Ok(false);
        }
        self.write(of, &entry.encode()?).map_err(KeyError::unavailable)?;
        Ok(true)
    }

    /// Removes an entry. Returns `false` if there was none.
    pub(super) fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        let _lock = self.lock()?;
        self.remove_unfinished().map_err(KeyError::unavailable)?;
        let removed = match fs::remove_file(self.path(of)) {
            Ok(()) => true,
            // An earlier call may have removed the file, and failed before the removal was durable.
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(KeyError::unavailable(error)),
        };
        (self.sync)(&self.directory).map_err(KeyError::unavailable)?;
        Ok(removed)
    }

    /// Returns the names of the first entries after one of them, in their order. It reads the names of all files, and
    /// keeps no more of them in memory than it returns.
    pub(super) fn list(&self, after: Option<EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        let mut found = Smallest::new(limit);
        for file in fs::read_dir(&self.directory).map_err(KeyError::unavailable)? {
            let name = file.map_err(KeyError::unavailable)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(ENDING)).and_then(EntryId::from_hex);
            if let Some(id) = id.filter(|id| after.is_none_or(|after| *id > after)) {
                found.add(id);
            }
        }
        Ok(found.into_sorted())
    }

    /// Waits for the lock of the directory. Dropping the file releases it.
    pub(super) fn lock(&self) -> Result<File, KeyError> {
        let file = File::options().create(true).append(true).open(self.directory.join(LOCK));
        let (file, began) = (file.map_err(KeyError::unavailable)?, Instant::now());
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < self.lock_limit => thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(KeyError::unavailable(error)),
            }
        }
    }

    /// Writes a file whole. Only the holder of the lock calls this, so one temporary name is enough.
    fn write(&self, of: &EntryId, content: &[u8]) -> io::Result<()> {
        let temporary = self.directory.join(NEW);
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path(of))?;
        (self.sync)(&self.directory)
    }

    /// Removes a file that was not renamed because of a crash. It may have keys of any prefix. Only the holder of the
    /// lock calls this.
    fn remove_unfinished(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join(NEW)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn create(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Makes renames and removals in the directory durable. Windows has no such call for directories.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::encryption::{
        key::KeyId,
        master::Wrapped,
        vault::{DataKey, EntryId},
    };

    fn key(byte: u8) -> DataKey {
        DataKey::new(KeyId::from_bytes([byte; 8]), Wrapped::new("m", vec![byte]))
    }

    #[test]
    fn a_key_that_is_not_durable_is_not_handed_out() {
        static FAILS: AtomicBool = AtomicBool::new(true);
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::open(directory.path().into()).unwrap();
        files.sync = |path| if FAILS.load(Ordering::Relaxed) { Err(ErrorKind::Other.into()) } else { sync(path) };
        let of = EntryId::from_bytes([1; 32]);
        let add = |byte| files.change(&of, |entry| entry.add_if(None, &key(byte)));
        // The file has its name already.
        assert!(add(1).unwrap_err().is_retryable());
        assert!(files.read(&of).unwrap_err().is_retryable());
        assert!(add(2).is_err(), "the key that it finds could be lost");
        FAILS.store(false, Ordering::Relaxed);
        assert!(!add(2).unwrap());
        assert_eq!(files.read(&of).unwrap().0, [key(1)]);
    }

    #[test]
    fn a_lock_that_another_process_never_returns_is_an_error_that_may_go_away() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::open(directory.path().into()).unwrap();
        files.lock_limit = Duration::ZERO;
        let of = EntryId::from_bytes([1; 32]);
        let held = files.lock().unwrap();
        assert!(files.change(&of, |entry| entry.add_if(None, &key(1))).unwrap_err().is_retryable());
        assert!(files.destroy(&of).unwrap_err().is_retryable());
        assert_eq!(files.read(&of).unwrap().0, [], "a reader does not need it");
        drop(held);
        assert!(files.change(&of, |entry| entry.add_if(None, &key(1))).unwrap());
    }
}

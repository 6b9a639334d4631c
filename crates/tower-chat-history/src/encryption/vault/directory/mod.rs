//! A vault in a directory.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{DataKey, Entry, EntryId, Vault, worker::Worker};
use crate::encryption::key::{KeyError, KeyId};

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

/// A vault in a directory: one file for each prefix, with the keys as JSON.
///
/// The name of a file is the [name of its entry](EntryId), so the directory does not show the ids of conversations.
/// Several processes on one machine may use one directory. A change writes a new file and renames it, so a crash leaves
/// the old keys or the new ones. Files on network file systems may lack the needed locks.
///
/// Two threads work for all clones: one reads keys, and one changes and lists entries. Each makes one call after the
/// other. The threads end with the last clone. If another process does not return the lock of the directory within 5
/// seconds, a change fails with [`Unavailable`](KeyError::Unavailable). Reads wait neither for the lock nor for changes.
///
/// A destroyed file may be recovered from the disk for some time, as any deleted file. The keys in it are wrapped, so
/// this needs a master key, too.
#[derive(Clone, Debug)]
pub struct DirectoryVault {
    files: Files,
    reader: Worker,
    /// A change may wait for the lock for a long time, and a listing reads the whole directory. Neither holds up reads.
    writer: Worker,
}

impl DirectoryVault {
    /// Opens the vault in this directory, which is created if it does not exist. This call blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or written, or if the threads cannot be started.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let files = Files::open(directory.into())?;
        let reader = Worker::start("chat-history-vault-read")?;
        let writer = Worker::start("chat-history-vault-write")?;
        Ok(Self { files, reader, writer })
    }

    /// Calls a function that blocks, on one of the threads.
    async fn run<T: Send + 'static>(
        &self,
        worker: &Worker,
        call: impl FnOnce(&Files) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let files = self.files.clone();
        worker.run(move || call(&files)).await
    }
}

#[async_trait]
impl Vault for DirectoryVault {
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError> {
        let of = *of;
        self.run(&self.reader, move |files| files.read(&of).map(|entry| entry.0)).await
    }

    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        let after = after.copied();
        self.run(&self.writer, move |files| files.list(after, limit)).await
    }

    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        let of = *of;
        let key = key.clone();
        self.run(&self.writer, move |files| files.change(&of, |entry| entry.add_if(current, &key))).await
    }

    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        let of = *of;
        let from = from.clone();
        let to = to.clone();
        self.run(&self.writer, move |files| files.change(&of, |entry| entry.replace(&from, &to))).await
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        let of = *of;
        self.run(&self.writer, move |files| files.destroy(&of)).await
    }
}

/// The directory of a vault. All functions block.
#[derive(Clone, Debug)]
struct Files {
    directory: PathBuf,
    lock_limit: Duration,
    /// Makes renames and removals in the directory durable.
    sync: fn(&Path) -> io::Result<()>,
}

impl Files {
    /// Opens the directory. If it does not exist, it is created, and on Unix only its owner can read it.
    fn open(directory: PathBuf) -> Result<Self, KeyError> {
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
    fn read(&self, of: &EntryId) -> Result<Entry, KeyError> {
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
    fn change(&self, of: &EntryId, change: impl FnOnce(&mut Entry) -> bool) -> Result<bool, KeyError> {
        let _lock = self.lock()?;
        let mut entry = self.read(of)?;
        if !change(&mut entry) {
            return Ok(false);
        }
        self.write(of, &entry.encode()?).map_err(KeyError::unavailable)?;
        Ok(true)
    }

    /// Removes an entry. Returns `false` if there was none.
    fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
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
    fn list(&self, after: Option<EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
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
    fn lock(&self) -> Result<File, KeyError> {
        let file = File::options().create(true).append(true).open(self.directory.join(LOCK));
        let file = file.map_err(KeyError::unavailable)?;

        let began = Instant::now();
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

/// The smallest names of those that were added, up to a limit. The others are forgotten at once, so the memory does not
/// grow with the number of names.
struct Smallest {
    limit: usize,
    names: BTreeSet<EntryId>,
}

impl Smallest {
    const fn new(limit: usize) -> Self {
        Self { limit, names: BTreeSet::new() }
    }

    fn add(&mut self, name: EntryId) {
        let is_full = self.names.len() == self.limit;
        if is_full && self.names.last().is_none_or(|last| name >= *last) {
            return;
        }
        if self.names.insert(name) && is_full {
            self.names.pop_last();
        }
    }

    fn into_sorted(self) -> Vec<EntryId> {
        self.names.into_iter().collect()
    }
}

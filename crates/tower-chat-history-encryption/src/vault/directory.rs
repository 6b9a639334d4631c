//! A vault in a directory.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
};

use async_trait::async_trait;
use futures_channel::oneshot;
use sha2::{Digest as _, Sha256};
use tower_chat_history_core::Prefix;

use super::{DataKey, Vault, entry::Entry};
use crate::key::{KeyError, KeyId};

/// The file that a writer locks. Readers do not lock it, because entries are replaced whole.
const LOCK: &str = "lock";
/// The file that is written, and then renamed.
const NEW: &str = "new";

/// A vault in a directory: one file for each prefix, with the keys as JSON.
///
/// The name of a file is the SHA-256 of its prefix, so the directory does not show the ids of conversations. (Somebody
/// who guesses a prefix can check the guess.) Several processes on one machine may use one directory. A change writes a
/// new file and renames it, so a crash leaves the old keys or the new ones. Files on network file systems may lack the
/// needed locks.
///
/// A destroyed file may be recovered from the disk for some time, as any deleted file. The keys in it are wrapped, so
/// this needs a master key, too.
#[derive(Clone, Debug)]
pub struct DirectoryVault {
    directory: PathBuf,
}

impl DirectoryVault {
    /// Opens the vault in this directory, which is created if it does not exist. This call blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or written.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(KeyError::failed)?;
        let _lock = lock(&directory).map_err(KeyError::failed)?;
        remove_unfinished(&directory).map_err(KeyError::failed)?;
        Ok(Self { directory })
    }

    /// Returns the path of a prefix's file.
    fn path(&self, of: &Prefix) -> PathBuf {
        let digest = Sha256::digest(of.as_str().as_bytes());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name + ".json")
    }

    /// Changes an entry while no other process does. `change` returns whether the entry is to be written.
    async fn change(
        &self,
        of: &Prefix,
        change: impl FnOnce(&mut Entry) -> bool + Send + 'static,
    ) -> Result<bool, KeyError> {
        let (directory, path) = (self.directory.clone(), self.path(of));
        on_thread(move || {
            let _lock = lock(&directory).map_err(KeyError::unavailable)?;
            let mut entry = read(&path)?;
            if !change(&mut entry) {
                return Ok(false);
            }
            write(&directory, &path, &entry.encode()?).map_err(KeyError::unavailable)?;
            Ok(true)
        })
        .await
    }
}

#[async_trait]
impl Vault for DirectoryVault {
    async fn read(&self, of: &Prefix) -> Result<Vec<DataKey>, KeyError> {
        let path = self.path(of);
        on_thread(move || read(&path).map(|entry| entry.0)).await
    }

    async fn add_if(&self, of: &Prefix, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        let key = key.clone();
        self.change(of, move |entry| entry.add_if(current, &key)).await
    }

    async fn replace(&self, of: &Prefix, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        let (from, to) = (from.clone(), to.clone());
        self.change(of, move |entry| entry.replace(&from, &to)).await
    }

    async fn destroy(&self, of: &Prefix) -> Result<bool, KeyError> {
        let (directory, path) = (self.directory.clone(), self.path(of));
        on_thread(move || {
            let _lock = lock(&directory).map_err(KeyError::unavailable)?;
            remove_unfinished(&directory).map_err(KeyError::unavailable)?;
            match fs::remove_file(&path) {
                Ok(()) => sync(&directory).map(|()| true).map_err(KeyError::unavailable),
                // An earlier call may have removed it, and failed before the removal was durable.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    sync(&directory).map(|()| false).map_err(KeyError::unavailable)
                }
                Err(error) => Err(KeyError::unavailable(error)),
            }
        })
        .await
    }
}

/// Runs a short task that blocks, on a thread of its own. The vault is called rarely, because keys are cached.
async fn on_thread<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, KeyError> + Send + 'static,
) -> Result<T, KeyError> {
    let (answer, answered) = oneshot::channel();
    let run = move || {
        // The caller may have left.
        let _ = answer.send(task());
    };
    thread::Builder::new().name("chat-history-vault".into()).spawn(run).map_err(KeyError::unavailable)?;
    answered.await.unwrap_or_else(|canceled| Err(KeyError::unavailable(canceled)))
}

/// Waits for the lock of the directory. Dropping the file releases it.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(directory.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

fn read(path: &Path) -> Result<Entry, KeyError> {
    match fs::read(path) {
        Ok(json) => Entry::decode(&json),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Entry::default()),
        Err(error) => Err(KeyError::unavailable(error)),
    }
}

/// Writes a file whole. Only the holder of the lock calls this, so one temporary name is enough.
fn write(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = directory.join(NEW);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync(directory)
}

/// Removes the file that a crash left before it was renamed. It may have keys of any prefix. Only the holder of the
/// lock calls this.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(NEW)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes renames and removals in the directory durable. Windows has no such call for directories.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

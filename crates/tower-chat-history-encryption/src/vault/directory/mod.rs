//! A vault in a directory.

mod files;
mod worker;

use std::path::PathBuf;

use async_trait::async_trait;

use self::{files::Files, worker::Worker};
use super::{DataKey, EntryId, Vault};
use crate::key::{KeyError, KeyId};

/// A vault in a directory: one file for each prefix, with the keys as JSON.
///
/// The name of a file is the [name of its entry](EntryId), so the directory does not show the ids of conversations.
/// Several processes on one machine may use one directory. A change writes a new file and renames it, so a crash leaves
/// the old keys or the new ones. Files on network file systems may lack the needed locks.
///
/// One thread reads and writes the files, for all clones, one call after the other. It ends with the last clone. If
/// another process does not return the lock of the directory within 5 seconds, a change fails with
/// [`Unavailable`](KeyError::Unavailable).
///
/// A destroyed file may be recovered from the disk for some time, as any deleted file. The keys in it are wrapped, so
/// this needs a master key, too.
#[derive(Clone, Debug)]
pub struct DirectoryVault {
    files: Files,
    worker: Worker,
}

impl DirectoryVault {
    /// Opens the vault in this directory, which is created if it does not exist. This call blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or written, or if no thread can be started.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, KeyError> {
        let files = Files::open(directory.into())?;
        Ok(Self { files, worker: Worker::start().map_err(KeyError::unavailable)? })
    }

    /// Calls a function that blocks, on the thread of the vault.
    async fn run<T: Send + 'static>(
        &self,
        of: impl FnOnce(&Files) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let files = self.files.clone();
        self.worker.run(move || of(&files)).await
    }
}

#[async_trait]
impl Vault for DirectoryVault {
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError> {
        let of = *of;
        self.run(move |files| files.read(&of).map(|entry| entry.0)).await
    }

    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        let after = after.copied();
        self.run(move |files| files.list(after, limit)).await
    }

    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        let (of, key) = (*of, key.clone());
        self.run(move |files| files.change(&of, |entry| entry.add_if(current, &key))).await
    }

    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        let (of, from, to) = (*of, from.clone(), to.clone());
        self.run(move |files| files.change(&of, |entry| entry.replace(&from, &to))).await
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        let of = *of;
        self.run(move |files| files.destroy(&of)).await
    }
}

//! A vault in a directory.

mod files;
mod smallest;
mod worker;

use std::path::PathBuf;

use async_trait::async_trait;

use self::{files::Files, worker::Worker};
use super::{DataKey, EntryId, Vault};
use crate::encryption::key::{KeyError, KeyId};

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
        let start = |name| Worker::start(name).map_err(KeyError::unavailable);
        Ok(Self { files, reader: start("chat-history-vault-read")?, writer: start("chat-history-vault-write")? })
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
        let (of, key) = (*of, key.clone());
        self.run(&self.writer, move |files| files.change(&of, |entry| entry.add_if(current, &key))).await
    }

    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        let (of, from, to) = (*of, from.clone(), to.clone());
        self.run(&self.writer, move |files| files.change(&of, |entry| entry.replace(&from, &to))).await
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        let of = *of;
        self.run(&self.writer, move |files| files.destroy(&of)).await
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::encryption::master::Wrapped;

    #[tokio::test]
    async fn a_read_waits_neither_for_a_change_that_waits_for_the_lock_nor_for_a_listing() {
        let directory = tempfile::tempdir().unwrap();
        let mut vault = DirectoryVault::open(directory.path()).unwrap();
        // This thread may be stalled while it has the lock.
        vault.files.lock_limit = Duration::from_secs(120);
        let (of, key) =
            (EntryId::from_bytes([1; 32]), DataKey::new(KeyId::from_bytes([1; 8]), Wrapped::new("m", vec![1])));
        let lock = vault.files.lock().unwrap();
        let mut change = pin!(vault.add_if(&of, None, &key));
        assert!(change.as_mut().now_or_never().is_none());
        let mut listing = pin!(vault.list(None, 10));
        assert!(listing.as_mut().now_or_never().is_none());
        assert_eq!(vault.read(&of).await.unwrap(), []);
        assert!(listing.as_mut().now_or_never().is_none(), "it is not on the thread of reads");
        drop(lock);
        assert!(change.await.unwrap());
        assert_eq!(listing.await.unwrap(), [of]);
        assert_eq!(vault.read(&of).await.unwrap(), std::slice::from_ref(&key));
    }
}

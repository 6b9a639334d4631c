//! The storage of wrapped data keys.

mod directory;
mod entry;
mod id;
mod memory;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

pub use self::{directory::DirectoryVault, entry::DataKey, id::EntryId, memory::MemoryVault};
use crate::encryption::key::{KeyError, KeyId};

/// A place for wrapped data keys: one entry for each prefix, such as a person, with a list of keys.
///
/// Keep it apart from the database and from the backups of the database. Then the destruction of a prefix's keys also
/// makes the backups unreadable. Without its keys, nothing of a prefix can be read, so the vault must be as durable as
/// the database.
///
/// # Contract
///
/// - **Conditional.** The check of a condition and the write are one step, also against other processes.
/// - **Whole.** A call takes full effect or none.
/// - **Durable.** When a call returns `Ok`, its effect survives a crash. A key that is returned survives one, too.
/// - **Destroyed keys stay destroyed.** [`replace`](Self::replace) never brings a key back.
#[async_trait]
pub trait Vault: fmt::Debug + Send + Sync + 'static {
    /// Returns the keys of an entry, oldest first. The last one is the current one. The list is empty if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be read, or if the entry is damaged.
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError>;

    /// Returns the names of entries in the order of their bytes: at most `limit`, and after one of them if it is given.
    /// Only an empty page is the end. An entry that exists throughout is listed exactly once, whatever others add and
    /// destroy in the meantime.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be read, but not if an entry is damaged.
    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError>;

    /// Adds a key after the others, if the current one has the id `current` (`None`: if there is no key). Otherwise
    /// returns `false` and adds nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be written. The outcome is then unknown.
    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError>;

    /// Replaces a key by `to`, which has the same id and another wrapped form. Returns `false`, and changes nothing, if
    /// `from` is not stored.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be written. The outcome is then unknown.
    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError>;

    /// Destroys all keys of an entry for good. Returns `false` if there was none.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be written. Repeat the call then.
    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<V: Vault + ?Sized> Vault for Arc<V> {
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError> {
        (**self).read(of).await
    }

    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        (**self).list(after, limit).await
    }

    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        (**self).add_if(of, current, key).await
    }

    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        (**self).replace(of, from, to).await
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        (**self).destroy(of).await
    }
}

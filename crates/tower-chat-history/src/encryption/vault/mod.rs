//! The storage of wrapped data keys.
//!
//! # Decisions
//!
//! - **Data keys are outside of the database**, and known by a prefix's digest. Destroying one entry makes a person's
//!   conversations unreadable in every backup.

mod directory;
mod worker;

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tower_chat_history_core::Prefix;

pub use self::directory::DirectoryVault;
use crate::encryption::{
    key::{KeyError, KeyId},
    master::WrappedKey,
};

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

/// The name of an entry in a vault: the SHA-256 of its prefix.
///
/// A vault does not see the ids of conversations. (Somebody who guesses a prefix can check the guess.) The text form
/// has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId([u8; Self::LEN]);

impl EntryId {
    /// The length of a name, in bytes.
    pub const LEN: usize = 32;

    /// Returns the name of a prefix's entry.
    #[must_use]
    pub fn of(prefix: &Prefix) -> Self {
        Self::of_text(prefix.as_str())
    }

    /// Returns the name of the entry of the prefix with this text form.
    pub(crate) fn of_text(prefix: &str) -> Self {
        Self(Sha256::digest(prefix.as_bytes()).into())
    }

    /// Creates the name with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Reads the text form.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 2 * Self::LEN || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}

/// A data key in its wrapped form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DataKey {
    /// The id of the key, which sealed items name.
    pub id: KeyId,
    /// The key, encrypted by a master key.
    pub wrapped: WrappedKey,
}

impl DataKey {
    /// Creates the wrapped key of this id.
    #[must_use]
    pub const fn new(id: KeyId, wrapped: WrappedKey) -> Self {
        Self { id, wrapped }
    }
}

/// The version of an entry's stored form.
const VERSION: u8 = 1;

/// The keys of a prefix, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry(pub(super) Vec<DataKey>);

#[derive(Serialize, Deserialize)]
struct Stored {
    v: u8,
    keys: Vec<DataKey>,
}

impl Entry {
    /// Adds a key if the current one has this id.
    pub(super) fn add_if(&mut self, current: Option<KeyId>, key: &DataKey) -> bool {
        let fits = self.0.last().map(|key| key.id) == current && self.0.iter().all(|other| other.id != key.id);
        if fits {
            self.0.push(key.clone());
        }
        fits
    }

    /// Replaces a key by one of the same id.
    pub(super) fn replace(&mut self, from: &DataKey, to: &DataKey) -> bool {
        let found = self.0.iter_mut().find(|key| *key == from).filter(|_| from.id == to.id);
        found.map(|key| *key = to.clone()).is_some()
    }

    /// Returns the JSON to store.
    pub(super) fn encode(&self) -> Result<Vec<u8>, KeyError> {
        serde_json::to_vec(&Stored { v: VERSION, keys: self.0.clone() }).map_err(KeyError::failed)
    }

    /// Reads the JSON that [`encode`](Self::encode) wrote.
    pub(super) fn decode(json: &[u8]) -> Result<Self, KeyError> {
        match serde_json::from_slice(json) {
            Ok(Stored { v: VERSION, keys }) => Ok(Self(keys)),
            _ => Err(KeyError::DamagedVault),
        }
    }
}

/// A vault in the memory of the process, for tests. All clones share the keys, which end with the last clone.
///
/// It grows with the number of prefixes.
#[derive(Clone, Debug, Default)]
pub struct MemoryVault(Arc<Mutex<BTreeMap<EntryId, Entry>>>);

impl MemoryVault {
    /// Creates an empty vault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<EntryId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Vault for MemoryVault {
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError> {
        Ok(self.entries().get(of).map(|entry| entry.0.clone()).unwrap_or_default())
    }

    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(*after));
        Ok(self.entries().range((from, Bound::Unbounded)).take(limit).map(|(id, _)| *id).collect())
    }

    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        Ok(self.entries().entry(*of).or_default().add_if(current, key))
    }

    async fn replace(&self, of: &EntryId, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        Ok(self.entries().get_mut(of).is_some_and(|entry| entry.replace(from, to)))
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        Ok(self.entries().remove(of).is_some_and(|entry| !entry.0.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries_parse_back() {
        let id = EntryId::of(&"acme/anna".parse().unwrap());
        let text = id.to_string();
        assert_eq!(EntryId::from_hex(&text), Some(id));
        for wrong in ["", &text[1..], &format!("+{}", &text[1..]), &text.replace(|c: char| c.is_alphabetic(), "G")] {
            assert_eq!(EntryId::from_hex(wrong), None, "{wrong}");
        }
        assert_ne!(EntryId::of(&Prefix::all()), id);
    }
}

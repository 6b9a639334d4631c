//! A vault in memory.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use super::{DataKey, EntryId, Vault, entry::Entry};
use crate::encryption::key::{KeyError, KeyId};

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

//! A vault in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tower_chat_history_core::Prefix;

use super::{DataKey, Vault, entry::Entry};
use crate::key::{KeyError, KeyId};

/// A vault in the memory of the process, for tests. All clones share the keys, which end with the last clone.
///
/// It grows with the number of prefixes.
#[derive(Clone, Debug, Default)]
pub struct MemoryVault(Arc<Mutex<HashMap<Prefix, Entry>>>);

impl MemoryVault {
    /// Creates an empty vault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Prefix, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Vault for MemoryVault {
    async fn read(&self, of: &Prefix) -> Result<Vec<DataKey>, KeyError> {
        Ok(self.entries().get(of).map(|entry| entry.0.clone()).unwrap_or_default())
    }

    async fn add_if(&self, of: &Prefix, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        Ok(self.entries().entry(of.clone()).or_default().add_if(current, key))
    }

    async fn replace(&self, of: &Prefix, from: &DataKey, to: &DataKey) -> Result<bool, KeyError> {
        Ok(self.entries().get_mut(of).is_some_and(|entry| entry.replace(from, to)))
    }

    async fn destroy(&self, of: &Prefix) -> Result<bool, KeyError> {
        Ok(self.entries().remove(of).is_some_and(|entry| !entry.0.is_empty()))
    }
}

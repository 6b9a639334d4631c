//! The keys of one prefix.

use serde::{Deserialize, Serialize};

use crate::encryption::{
    key::{KeyError, KeyId},
    master::Wrapped,
};

/// A data key in its wrapped form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DataKey {
    /// The id of the key, which sealed items name.
    pub id: KeyId,
    /// The key, encrypted by a master key.
    pub wrapped: Wrapped,
}

impl DataKey {
    /// Creates the wrapped key of this id.
    #[must_use]
    pub const fn new(id: KeyId, wrapped: Wrapped) -> Self {
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

//! The errors of sealed items.

use tower_chat_history_core::{ConversationId, Profile, Seq, StoreError, backend::RecordError};

use crate::encryption::{
    item::Item,
    key::{KeyError, KeyId},
};

/// The error for an item that does not open. It is the source of a [`StoreError`]. It names the item, and the id of its
/// key if that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The item is not sealed. It was stored without the wrapper, or somebody added it to the database.
    #[error("{item} is not sealed")]
    NotSealed {
        /// The item.
        item: Item,
    },
    /// The text or the bytes are not a sealed item.
    #[error("{item} is damaged (key {})", shown(*key))]
    Damaged {
        /// The item.
        item: Item,
        /// The id of the key, if it can be read.
        key: Option<KeyId>,
    },
    /// A newer version of this library sealed the item.
    #[error("{item} has version {version}, but this library opens version {known} (key {key})")]
    Newer {
        /// The item.
        item: Item,
        /// The id of the key.
        key: KeyId,
        /// The item's version.
        version: u8,
        /// The version that this library opens.
        known: u8,
    },
    /// The item was changed, or it was sealed for another place: another position, exchange or conversation.
    #[error("{item} was changed or moved (key {key})")]
    Changed {
        /// The item.
        item: Item,
        /// The id of the key.
        key: KeyId,
    },
    /// The visible properties of the item differ from the sealed ones.
    #[error("the visible properties of {item} differ from the sealed ones (key {key})")]
    Mismatch {
        /// The item.
        item: Item,
        /// The id of the key.
        key: KeyId,
    },
    /// The item opens, but its content cannot be read.
    #[error("{item} opens, but cannot be read (key {key}): {source}")]
    Record {
        /// The item.
        item: Item,
        /// The id of the key.
        key: KeyId,
        /// The cause.
        source: RecordError,
    },
    /// The key cannot be used.
    #[error("{item} cannot be opened (key {key}): {source}")]
    Key {
        /// The item.
        item: Item,
        /// The id of the key.
        key: KeyId,
        /// The cause.
        source: KeyError,
    },
}

fn shown(key: Option<KeyId>) -> String {
    key.map_or_else(|| "unknown".to_owned(), |key| key.to_string())
}

impl OpenError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Key { source, .. } if source.is_retryable())
    }

    /// Returns `true` if the keys cannot be reached at the moment. Other items cannot be opened then either.
    pub(crate) const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Key { source: KeyError::Unavailable { .. }, .. })
    }

    /// Returns the error of a store for an exchange that does not open.
    pub(crate) fn of_exchange(self, conversation: &ConversationId, seq: Seq) -> StoreError {
        if self.is_retryable() {
            return StoreError::unavailable(self);
        }
        StoreError::Corrupt { conversation: conversation.clone(), seq, source: Box::new(self) }
    }

    /// Returns the error of a store for a compaction whose text does not open.
    pub(crate) fn of_compaction(self, conversation: &ConversationId, profile: &Profile) -> StoreError {
        if self.is_retryable() {
            return StoreError::unavailable(self);
        }
        let (conversation, profile) = (conversation.clone(), profile.clone());
        StoreError::CorruptCompaction { conversation, profile, source: Box::new(self) }
    }
}

/// The error of a store for labels that do not open. They have no variant of their own.
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        if error.is_retryable() { Self::unavailable(error) } else { Self::backend(error) }
    }
}

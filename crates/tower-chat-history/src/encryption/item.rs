//! The items that are sealed, the places to which they are bound, and the errors of those that do not open.
//!
//! # Decisions
//!
//! - **The position is a part of the associated data.** The wrapper seals for the position that a revision names, and
//!   appends under that condition. A chain of digests would need the exchange before for each append.

use std::fmt;

use tower_chat_history_core::{ConversationId, ExchangeId, Profile, Seq, StoreError, backend::RecordError};

use crate::encryption::key::{KeyError, KeyId};

/// The text that begins the associated data. Another layout needs another text.
const DOMAIN: &[u8] = b"tower-chat-history sealed item";

/// An item that is sealed, with its place in its conversation.
///
/// `Display` names the item and its position in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// The content of an exchange.
    Exchange(ExchangeId, Seq),
    /// The recalled messages of an exchange.
    Recalled(ExchangeId, Seq),
    /// The provenance of an exchange.
    Provenance(ExchangeId, Seq),
    /// The text in a compaction of a profile whose window starts at a position, such as a summary.
    Derived(Profile, Seq),
    /// The labels of the conversation.
    Labels,
}

impl Item {
    /// Returns the associated data: everything that a sealed item is bound to. `header` has the version and the key id.
    pub(crate) fn binding(&self, conversation: &ConversationId, header: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        for field in [DOMAIN, header, conversation.as_str().as_bytes()] {
            push_field(&mut out, field);
        }

        let (kind, name, position) = match self {
            Self::Exchange(id, seq) => (1, id.as_str(), Some(seq)),
            Self::Recalled(id, seq) => (2, id.as_str(), Some(seq)),
            Self::Provenance(id, seq) => (3, id.as_str(), Some(seq)),
            Self::Derived(profile, window_start) => (4, profile.as_str(), Some(window_start)),
            Self::Labels => (5, "", None),
        };
        push_field(&mut out, &[kind]);
        push_field(&mut out, name.as_bytes());
        if let Some(position) = position {
            push_field(&mut out, &position.get().to_be_bytes());
        }
        out
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(_, seq) => write!(f, "the content of exchange {seq}"),
            Self::Recalled(_, seq) => write!(f, "the recalled messages of exchange {seq}"),
            Self::Provenance(_, seq) => write!(f, "the provenance of exchange {seq}"),
            Self::Derived(profile, window_start) => {
                write!(f, "the text in the compaction of profile {profile} (window from {window_start})")
            }
            Self::Labels => f.write_str("the labels"),
        }
    }
}

/// Adds a field to a list of byte strings: its length in 4 bytes, and its bytes. So no two lists have the same form.
pub(crate) fn push_field(out: &mut Vec<u8>, field: &[u8]) {
    // No field has 4 GiB: all of them are ids, names and labels.
    out.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(field);
}

/// Returns the first field of a list and the rest, or `None` if there is no whole field.
pub(crate) fn take_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

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
        StoreError::CorruptCompaction {
            conversation: conversation.clone(),
            profile: profile.clone(),
            source: Box::new(self),
        }
    }
}

/// The error of a store for labels that do not open. They have no variant of their own.
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        if error.is_retryable() { Self::unavailable(error) } else { Self::backend(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_different_places_have_different_bindings() {
        let conversation = |text: &str| text.parse::<ConversationId>().unwrap();
        let (id, other) = (ExchangeId::new("e1").unwrap(), ExchangeId::new("e2").unwrap());
        let (zero, one) = (Seq::FIRST, Seq::new(1));
        let profile = |text: &str| Profile::new(text).unwrap();
        let items = [
            Item::Exchange(id.clone(), zero),
            Item::Exchange(id.clone(), one),
            Item::Exchange(other, zero),
            Item::Recalled(id.clone(), zero),
            Item::Provenance(id, zero),
            Item::Derived(profile("e1"), zero),
            Item::Derived(profile("e1"), one),
            Item::Derived(profile("e2"), zero),
            Item::Labels,
        ];
        let mut bindings: Vec<_> = items
            .iter()
            .flat_map(|item| {
                ["a/b", "a", "b"].into_iter().flat_map(move |text| {
                    [b"\x01k1", b"\x01k2"].map(|header| item.binding(&conversation(text), header))
                })
            })
            .collect();
        let all = bindings.len();
        bindings.sort();
        bindings.dedup();
        assert_eq!((bindings.len(), all), (items.len() * 6, items.len() * 6));
    }

    #[test]
    fn fields_read_back() {
        let mut out = Vec::new();
        for field in [&b"a"[..], b"", b"bc"] {
            push_field(&mut out, field);
        }
        let (first, rest) = take_field(&out).unwrap();
        let (second, rest) = take_field(rest).unwrap();
        let (third, rest) = take_field(rest).unwrap();
        assert_eq!((first, second, third, rest), (&b"a"[..], &b""[..], &b"bc"[..], &b""[..]));
        assert_eq!((take_field(b""), take_field(&[0, 0, 0, 2, 1])), (None, None));
    }
}

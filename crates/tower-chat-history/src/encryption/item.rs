//! The items that are sealed, and the places to which they are bound.

use std::fmt;

use tower_chat_history_core::{ConversationId, ExchangeId, Profile, Seq};

use crate::encryption::fields;

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
            fields::push(&mut out, field);
        }
        let mut bind = |kind: u8, name: &str, positions: &[Seq]| {
            fields::push(&mut out, &[kind]);
            fields::push(&mut out, name.as_bytes());
            for position in positions {
                fields::push(&mut out, &position.get().to_be_bytes());
            }
        };
        match self {
            Self::Exchange(id, seq) => bind(1, id.as_str(), &[*seq]),
            Self::Recalled(id, seq) => bind(2, id.as_str(), &[*seq]),
            Self::Provenance(id, seq) => bind(3, id.as_str(), &[*seq]),
            Self::Derived(profile, window_start) => bind(4, profile.as_str(), &[*window_start]),
            Self::Labels => bind(5, "", &[]),
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
}

//! The places of selected messages.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tower_chat_history_core::{Message, Recorded, Seq};

use super::messages::Place;

/// Messages of one exchange that are shown again, next to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cite {
    /// The exchange.
    pub seq: Seq,
    /// The messages, by their places in the exchange.
    pub messages: Range<u32>,
}

impl Cite {
    /// Creates the citation of these messages of an exchange.
    #[must_use]
    pub const fn new(seq: Seq, messages: Range<u32>) -> Self {
        Self { seq, messages }
    }

    /// Returns the cited messages of an exchange, in order. It is empty if the exchange is another one.
    #[must_use]
    pub fn messages_of<'a>(&self, recorded: &'a Recorded) -> &'a [Message] {
        let messages = if recorded.seq == self.seq { recorded.exchange.messages.as_slice() } else { &[] };
        let at = |index: u32| usize::try_from(index).unwrap_or(usize::MAX).min(messages.len());
        messages.get(at(self.messages.start)..at(self.messages.end)).unwrap_or_default()
    }

    /// Returns each cited message's place. It reads at most 65,536 of a citation, so that a damaged one costs little.
    pub(super) fn places(cites: &[Self]) -> impl Iterator<Item = Place> {
        cites.iter().flat_map(|cite| cite.messages.clone().take(1 << 16).map(|message| (cite.seq, message)))
    }

    /// Returns the citations of places, which are in order.
    pub(super) fn of_places(places: impl IntoIterator<Item = Place>) -> Vec<Self> {
        let mut cites: Vec<Self> = Vec::new();
        for (seq, message) in places {
            match cites.last_mut() {
                Some(last) if last.seq == seq && last.messages.end == message => last.messages.end = message + 1,
                _ => cites.push(Self::new(seq, message..message + 1)),
            }
        }
        cites
    }
}

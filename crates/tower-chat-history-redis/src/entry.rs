//! The entry of an exchange in the index.

use std::ops::Range;

use tower_chat_history_core::Exchange;

/// The positions of an entry's fields, as in `NUMBERS` of `scripts/state.lua`.
const OWN_MESSAGES: Range<usize> = 21..25;
const OWN_BYTES: Range<usize> = 25..31;
const ID: usize = 47;

/// A decoded index entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    opens_turn: bool,
    /// `true` if the exchange was appended with recalled messages, unless they have been removed.
    pub(crate) has_recalled: bool,
    messages: u64,
    bytes: u64,
    id: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Decodes an entry. Returns `None` if it is invalid.
    pub(crate) fn new(entry: &'a [u8]) -> Option<Self> {
        let number =
            |range: Range<usize>| Some(entry.get(range)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        let (opens_turn, has_recalled) = match entry.first()? {
            flags @ 0..=3 => (flags & 1 != 0, flags & 2 != 0),
            _ => return None,
        };
        let (messages, bytes) = (number(OWN_MESSAGES)?, number(OWN_BYTES)?);
        Some(Self { opens_turn, has_recalled, messages, bytes, id: entry.get(ID..)? })
    }

    /// Returns `true` if the entry belongs to the exchange.
    pub(crate) fn matches(&self, exchange: &Exchange) -> bool {
        self.id == exchange.id.as_str().as_bytes()
            && self.opens_turn == exchange.opens_turn()
            && self.messages == exchange.counted_messages() as u64
            && self.bytes == exchange.bytes() as u64
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{ExchangeId, Message};

    use super::*;

    fn entry(opens: u8, id: &str) -> Vec<u8> {
        let numbers = [&[opens][..], &[0, 0, 0, 0, 1, 2], &[0, 0, 0, 0, 0, 0, 3, 4], &[0, 0, 0, 0, 0, 5]];
        let own = [&[0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 30], b"the-call's-name-"];
        [&numbers.concat()[..], &own.concat(), id.as_bytes()].concat()
    }

    #[test]
    fn an_entry_is_compared_with_its_exchange() {
        let exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [Message::user("hi")]);
        assert_eq!(exchange.bytes(), 30);
        let bytes = entry(1, "e1");
        let read = Entry::new(&bytes).unwrap();
        assert!(read.matches(&exchange));
        for other in [entry(0, "e1"), entry(1, "e2"), entry(1, "")] {
            assert!(!Entry::new(&other).unwrap().matches(&exchange));
        }
        assert!(!read.has_recalled);
        let recalling = entry(3, "e1");
        let recalling = Entry::new(&recalling).unwrap();
        assert!(recalling.has_recalled && recalling.matches(&exchange), "the flag is not a part of the exchange");
        for none in [&b""[..], b"secret", &entry(4, "e1"), &bytes[..46]] {
            assert!(Entry::new(none).is_none());
        }
    }

    #[test]
    fn an_exchange_without_messages_counts_as_one_message() {
        let mut bytes = entry(1, "e1");
        bytes[OWN_BYTES].fill(0);
        assert!(Entry::new(&bytes).unwrap().matches(&Exchange::new(ExchangeId::new("e1").unwrap(), [])));
    }
}

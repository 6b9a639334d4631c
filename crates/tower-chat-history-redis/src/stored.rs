//! The stored form of exchanges.

use std::ops::Range;

use tower_chat_history_core::{ConversationId, Exchange, Recorded, Seq, StoreError, backend::ExchangeRecords};

use crate::error::LayoutError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The positions of an entry's fields, as in `NUMBERS` of `scripts/state.lua`.
const OWN_MESSAGES: Range<usize> = 27..31;
const OWN_BYTES: Range<usize> = 31..37;
const OWN_MEDIA: Range<usize> = 37..43;
const ID: usize = 59;

/// An exchange as it is stored.
pub(crate) struct StoredExchange {
    pub(crate) record: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    /// It is empty if there are none, or if they were erased.
    pub(crate) recalled: Vec<u8>,
    /// It is empty if there is none.
    pub(crate) provenance: Vec<u8>,
}

/// Decodes the exchange at a position. Its recalled messages and its provenance are empty if there are none.
pub(crate) fn decode(
    id: &ConversationId,
    seq: u64,
    record: &[u8],
    recalled: &[u8],
    provenance: &[u8],
) -> Result<Recorded, StoreError> {
    let seq = Seq::new(seq);
    match decode_exchange(record, recalled, provenance) {
        Ok(exchange) => Ok(Recorded::new(seq, exchange)),
        Err(source) => Err(StoreError::Corrupt { conversation: id.clone(), seq, source }),
    }
}

fn decode_exchange(record: &[u8], recalled: &[u8], provenance: &[u8]) -> Result<Exchange, BoxError> {
    let provenance = std::str::from_utf8(provenance)?;
    let records = ExchangeRecords {
        exchange: std::str::from_utf8(record)?,
        recalled: recalled_record(recalled)?,
        provenance: Some(provenance).filter(|record| !record.is_empty()),
    };
    Ok(records.decode()?)
}

/// A decoded index entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    opens_turn: bool,
    /// `true` if the exchange was appended with recalled messages, unless they have been removed.
    pub(crate) has_recalled: bool,
    messages: u64,
    bytes: u64,
    media_bytes: u64,
    id: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Decodes an entry. Returns `None` if it is invalid.
    pub(crate) fn new(entry: &'a [u8]) -> Option<Self> {
        let flags = *entry.first()?;
        if flags > 3 {
            return None;
        }

        Some(Self {
            opens_turn: flags & 1 != 0,
            has_recalled: flags & 2 != 0,
            messages: number(entry.get(OWN_MESSAGES)?),
            bytes: number(entry.get(OWN_BYTES)?),
            media_bytes: number(entry.get(OWN_MEDIA)?),
            id: entry.get(ID..)?,
        })
    }

    /// Returns `true` if the entry belongs to the exchange.
    pub(crate) fn matches(&self, exchange: &Exchange) -> bool {
        self.id == exchange.id.as_str().as_bytes()
            && self.opens_turn == exchange.opens_turn()
            && self.messages == exchange.counted_messages() as u64
            && self.bytes == exchange.bytes() as u64
            && self.media_bytes == exchange.media_bytes() as u64
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the value to store for the recalled messages of an exchange: the first cited position (-1 if another
/// conversation is cited, nothing if nothing is cited), a space, and the record. It is empty if there are none.
pub(crate) fn recalled_value(exchange: &Exchange) -> Result<String, StoreError> {
    let Some(recalled) = &exchange.recalled else { return Ok(String::new()) };
    let record = recalled.encode().map_err(StoreError::backend)?;
    let cited = recalled.least_cited().map(|cited| cited.to_string()).unwrap_or_default();
    Ok(format!("{cited} {record}"))
}

/// Returns the record of a value. An empty value has none.
fn recalled_record(value: &[u8]) -> Result<Option<&str>, BoxError> {
    if value.is_empty() {
        return Ok(None);
    }
    let (_cited, record) = std::str::from_utf8(value)?.split_once(' ').ok_or(LayoutError::Damaged)?;
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Citation, ExchangeId, Message, Recalled};

    use super::*;

    fn entry(opens: u8, id: &str) -> Vec<u8> {
        let sums = [&[0, 0, 0, 0, 1, 2][..], &[0, 0, 0, 0, 0, 0, 3, 4], &[0, 0, 0, 0, 2, 1], &[0, 0, 0, 0, 0, 5]];
        let own = [&[0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 30], &[0; 6], b"the-call's-name-"];
        [&[opens], &sums.concat()[..], &own.concat(), id.as_bytes()].concat()
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
        for none in [&b""[..], b"secret", &entry(4, "e1"), &bytes[..58]] {
            assert!(Entry::new(none).is_none());
        }
    }

    #[test]
    fn an_entry_has_the_media_of_its_exchange() {
        let exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [Message::user("A".repeat(2_000))]);
        assert_eq!((exchange.bytes(), exchange.media_bytes()), (0x07_ec, 0x07_d0));
        let mut bytes = entry(1, "e1");
        bytes[OWN_BYTES].copy_from_slice(&[0, 0, 0, 0, 0x07, 0xec]);
        assert!(!Entry::new(&bytes).unwrap().matches(&exchange));
        bytes[OWN_MEDIA].copy_from_slice(&[0, 0, 0, 0, 0x07, 0xd0]);
        assert!(Entry::new(&bytes).unwrap().matches(&exchange));
    }

    #[test]
    fn an_exchange_without_messages_counts_as_one_message() {
        let mut bytes = entry(1, "e1");
        bytes[OWN_BYTES].fill(0);
        assert!(Entry::new(&bytes).unwrap().matches(&Exchange::new(ExchangeId::new("e1").unwrap(), [])));
    }

    #[test]
    fn a_value_is_the_first_cited_position_and_the_record() {
        let mut exchange = Exchange::new(ExchangeId::new("e").unwrap(), []);
        assert_eq!(recalled_value(&exchange).unwrap(), "");
        let [own, other] = [12, 7].map(|seq| Citation::new(Seq::new(seq), 0..1));
        let other_conversation = other.clone().of("other".parse().unwrap());
        for (citations, stored) in
            [(vec![], ""), (vec![own.clone(), other], "7"), (vec![own, other_conversation], "-1")]
        {
            let recalled = Recalled::new("text with spaces", citations);
            exchange.recalled = Some(recalled.clone());
            let value = recalled_value(&exchange).unwrap();
            let record = recalled.encode().unwrap();
            assert_eq!(value, format!("{stored} {record}"));
            assert_eq!(recalled_record(value.as_bytes()).unwrap(), Some(record.as_str()));
        }
        assert_eq!(recalled_record(b"").unwrap(), None);
        for damaged in [&b"secret"[..], b"1 \xff", b"{}"] {
            assert!(!recalled_record(damaged).unwrap_err().to_string().contains("secret"));
        }
    }
}

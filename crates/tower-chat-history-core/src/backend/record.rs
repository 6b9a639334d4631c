//! The stored form of exchanges and cuts: versioned JSON documents with the messages verbatim.
//!
//! Every store that writes to a disk or a network uses this form, so a log can be moved from one store to another.
//! Store it as text and not in a JSON column: databases reorder the keys of JSON columns, and some reject `\u0000`.
//!
//! A record begins with its version number. Before release 0.1.0, a version may change in place. From 0.1.0 on, a
//! changed form gets the next number and its own reader, and the readers and frozen test samples of older versions
//! stay.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{
    compaction::Cut,
    exchange::{Exchange, TokenCounts, Usage},
    exchange_id::ExchangeId,
    message::Message,
    recalled::{Citation, Recalled},
    seq::Seq,
    timestamp::Timestamp,
};

/// The version that this crate writes, for exchanges, cuts and recalled messages.
const VERSION: u64 = 1;

/// Reads a record of one version, and returns the version number in it and the value.
type Reader<T> = fn(&str) -> Result<(Version, T), serde_json::Error>;

/// The readers of all versions from 1 on. The last one reads [`VERSION`].
const EXCHANGES: &[Reader<Exchange>] = &[exchange_1];
const CUTS: &[Reader<Cut>] = &[cut_1];
const RECALLED: &[Reader<Recalled>] = &[recalled_1];

/// A version number, from 1. It has 64 bits, so that the number of any newer version can be shown.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version(u64);

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            0 => Err(D::Error::custom("invalid version 0")),
            version => Ok(Self(version)),
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    v: u64,
    id: &'a ExchangeId,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<Seq>,
    messages: &'a [Message],
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: &'a Option<TokenCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: &'a Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
}

#[derive(Deserialize)]
struct Read {
    v: Version,
    id: ExchangeId,
    at: Timestamp,
    continues: Option<Seq>,
    messages: Vec<Message>,
    tokens: Option<TokenCounts>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    incomplete: bool,
}

#[derive(Deserialize)]
struct Versioned {
    v: Version,
}

impl Exchange {
    /// Returns the text to store, which contains the messages byte for byte. The [recalled](Self::recalled) messages are
    /// not in it: store them in a place of their own, as [`Recalled::encode`] returns them.
    ///
    /// # Errors
    ///
    /// Never fails for an exchange of this crate's own types. It returns a `Result` because serialization is
    /// fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let Self { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete, recalled: _ } = self;
        let (at, continues, incomplete) = (*at, *continues, *incomplete);
        let record =
            Written { v: VERSION, id, at, continues, messages, tokens, model, finish_reason, usage, incomplete };
        serde_json::to_string(&record).map_err(RecordError::malformed)
    }

    /// Reads the exchange that [`encode`](Self::encode) wrote. It has no recalled messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        Self::decode_with(record, None)
    }

    /// Reads an exchange, and its recalled messages from the text that [`Recalled::encode`] wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the texts is not such a record, or if a newer version of this library wrote it.
    pub fn decode_with(record: &str, recalled: Option<&str>) -> Result<Self, RecordError> {
        let mut exchange = read(record, EXCHANGES)?;
        exchange.recalled = recalled.map(Recalled::decode).transpose()?;
        exchange.share_counts();
        Ok(exchange)
    }
}

fn exchange_1(record: &str) -> Result<(Version, Exchange), serde_json::Error> {
    let Read { v, id, at, continues, messages, tokens, model, finish_reason, usage, incomplete } =
        serde_json::from_str(record)?;
    let recalled = None;
    Ok((v, Exchange { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete, recalled }))
}

/// A cut as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredCut<V, C> {
    v: V,
    #[serde(flatten)]
    cut: C,
}

impl Cut {
    /// Returns the text to store.
    ///
    /// # Errors
    ///
    /// Never fails for a cut of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        serde_json::to_string(&StoredCut { v: VERSION, cut: self }).map_err(RecordError::malformed)
    }

    /// Reads the cut that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        read(record, CUTS)
    }
}

fn cut_1(record: &str) -> Result<(Version, Cut), serde_json::Error> {
    let StoredCut { v, cut } = serde_json::from_str(record)?;
    Ok((v, cut))
}

/// Recalled messages as they are stored.
#[derive(Serialize, Deserialize)]
struct StoredRecalled<V, M, C> {
    v: V,
    message: M,
    citations: C,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u32>,
}

impl Recalled {
    /// Returns the text to store next to the exchange's record. It contains the message byte for byte.
    ///
    /// # Errors
    ///
    /// Never fails for a value of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let Self { message, citations, tokens } = self;
        let record = StoredRecalled { v: VERSION, message, citations, tokens: *tokens };
        serde_json::to_string(&record).map_err(RecordError::malformed)
    }

    /// Reads the value that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        read(record, RECALLED)
    }
}

fn recalled_1(record: &str) -> Result<(Version, Recalled), serde_json::Error> {
    let StoredRecalled { v, message, citations, tokens }: StoredRecalled<_, Message, Vec<Citation>> =
        serde_json::from_str(record)?;
    Ok((v, Recalled { message, citations, tokens }))
}

/// Reads a record with the reader of its version. Most records have the newest version and are parsed once.
fn read<T>(record: &str, readers: &[Reader<T>]) -> Result<T, RecordError> {
    let known = readers.len() as u64;
    let newest = readers.last().map(|newest| newest(record));
    let malformed = match newest {
        Some(Ok((Version(version), value))) if version == known => return Ok(value),
        Some(Err(malformed)) => Some(malformed),
        // A record of another version may have this form by chance.
        Some(Ok(_)) | None => None,
    };
    // A record of another version need not have the newest form.
    let Version(version) = match serde_json::from_str(record) {
        Ok(Versioned { v }) => v,
        Err(unversioned) => return Err(RecordError::malformed(malformed.unwrap_or(unversioned))),
    };
    if version > known {
        return Err(RecordError::Newer { version, known });
    }
    if let Some(malformed) = malformed.filter(|_| version == known) {
        return Err(RecordError::malformed(malformed));
    }
    let reader = usize::try_from(version - 1).ok().and_then(|index| readers.get(index));
    let reader = reader.ok_or(RecordError::Newer { version, known })?;
    reader(record).map(|(_, value)| value).map_err(RecordError::malformed)
}

/// The error for a stored record that cannot be read. It never quotes the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The text is not a record, or is damaged.
    #[error("the record is malformed (line {line}, column {column})")]
    Malformed {
        /// The line in the record, counted from 1.
        line: usize,
        /// The column in the line, in bytes, counted from 1.
        column: usize,
    },
    /// A newer version of this library wrote the record.
    #[error("the record has version {version}, but this library reads versions up to {known}")]
    Newer {
        /// The record's version.
        version: u64,
        /// The newest version that this library reads.
        known: u64,
    },
}

impl RecordError {
    #[allow(clippy::needless_pass_by_value)] // serde_json's error may quote the record, so it is dropped.
    fn malformed(error: serde_json::Error) -> Self {
        Self::Malformed { line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::Summary;

    fn full() -> Exchange {
        let odd = Message::from_json("{ \"role\":\"user\", \"content\":\"\\u0000\", \"x\": 1.0 }").unwrap();
        let mut exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [odd, Message::assistant("hi")]);
        exchange.continues = Some(Seq::new(3));
        exchange.tokens = Some(TokenCounts { counter: "o200k_base".into(), counts: vec![5, 6] });
        exchange.model = Some("gpt-4o".into());
        exchange.finish_reason = Some("stop".into());
        exchange.usage = Some(Usage::new(10, 2));
        exchange.incomplete = true;
        exchange
    }

    #[test]
    fn decodes_what_it_encoded_byte_for_byte() {
        for exchange in [full(), Exchange::new(ExchangeId::generate(), [])] {
            let record = exchange.encode().unwrap();
            let read = Exchange::decode(&record).unwrap();
            assert_eq!(read, exchange);
            assert_eq!(read.encode().unwrap(), record);
        }
    }

    /// From release 0.1.0 on, a change here is a new version, and this version keeps its reader.
    #[test]
    fn version_1_is_frozen() {
        let mut exchange = full();
        exchange.at = Timestamp::from_unix_millis(1_700_000_000_000);
        let expected = "{\"v\":1,\"id\":\"e1\",\"at\":1700000000000,\"continues\":3,\"messages\":[{ \"role\":\"user\", \"content\":\"\\u0000\", \"x\": 1.0 },{\"role\":\"assistant\",\"content\":\"hi\"}],\"tokens\":{\"counter\":\"o200k_base\",\"counts\":[5,6]},\"model\":\"gpt-4o\",\"finish_reason\":\"stop\",\"usage\":{\"input_tokens\":10,\"output_tokens\":2},\"incomplete\":true}";
        assert_eq!(exchange.encode().unwrap(), expected);
    }

    #[test]
    fn version_1_of_a_cut_is_frozen() {
        let mut cut = Cut::window_from(Seq::new(2));
        let text = r#"{"v":1,"window_start":2,"rounds_start":2,"cleared_before":2}"#;
        assert_eq!((cut.encode().unwrap().as_str(), Cut::decode(text).unwrap()), (text, cut.clone()));
        cut.summary = Some(Summary::new("s", Seq::new(1)));
        let text =
            r#"{"v":1,"window_start":2,"rounds_start":2,"cleared_before":2,"summary":{"text":"s","covers_to":1}}"#;
        assert_eq!((cut.encode().unwrap().as_str(), Cut::decode(text).unwrap()), (text, cut.clone()));
        assert!(matches!(Cut::decode(&text.replacen('1', "2", 1)), Err(RecordError::Newer { version: 2, known: 1 })));
        cut = Cut::window_from(Seq::new(2));
        cut.recalled_from = Seq::new(7);
        let text = r#"{"v":1,"window_start":2,"rounds_start":2,"cleared_before":2,"recalled_from":7}"#;
        assert_eq!((cut.encode().unwrap().as_str(), Cut::decode(text).unwrap()), (text, cut));
        assert!(Cut::decode("{}").is_err());
    }

    #[test]
    fn version_1_of_recalled_messages_is_frozen() {
        let mut recalled = Recalled::new("Rex \u{0}", vec![Citation::new(Seq::new(3), 0..2)]);
        let text = r#"{"v":1,"message":{"role":"user","content":"Rex \u0000"},"citations":[[3,0,2]]}"#;
        assert_eq!((recalled.encode().unwrap().as_str(), Recalled::decode(text).unwrap()), (text, recalled.clone()));
        recalled.tokens = Some(7);
        let text = text.replace("]]}", "]],\"tokens\":7}");
        assert_eq!((recalled.encode().unwrap(), Recalled::decode(&text).unwrap()), (text.clone(), recalled));
        let newer = text.replacen('1', "2", 1);
        assert!(matches!(Recalled::decode(&newer), Err(RecordError::Newer { version: 2, known: 1 })));
        assert!(Recalled::decode("{}").is_err());
    }

    #[test]
    fn an_exchange_is_read_with_its_recalled_messages_and_their_count() {
        let mut exchange = full();
        let mut recalled = Recalled::new("Rex", vec![Citation::new(Seq::FIRST, 0..1)]);
        recalled.tokens = Some(9);
        let record = exchange.encode().unwrap();
        exchange.recalled = Some(recalled);
        assert_eq!(exchange.encode().unwrap(), record, "they are not in the record");
        let text = exchange.recalled.as_ref().unwrap().encode().unwrap();
        let read = Exchange::decode_with(&record, Some(&text)).unwrap();
        assert_eq!(read, exchange);
        let counted = read.recalled.unwrap().message;
        assert_eq!(counted.tokens_by("o200k_base"), Some(9));
        assert!(Exchange::decode_with(&record, Some("secret")).is_err());
    }

    #[test]
    fn newer_and_damaged_records_are_different_errors_without_quotes() {
        let as_now = full().encode().unwrap().replacen("\"v\":1", "\"v\":2", 1);
        for newer in [r#"{"v":2,"secret":1}"#, &as_now] {
            assert!(matches!(Exchange::decode(newer), Err(RecordError::Newer { version: 2, known: 1 })), "{newer}");
        }
        let unversioned = full().encode().unwrap().replacen("\"v\":1,", "", 1);
        assert!(Exchange::decode(&unversioned).is_err());
        for damaged in ["", "secret", "{\"v\":1}", &full().encode().unwrap()[..40]] {
            let error = Exchange::decode(damaged).unwrap_err();
            assert!(matches!(error, RecordError::Malformed { .. }) && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_newest_reader_reads_the_written_version() {
        let readers = [EXCHANGES.len(), CUTS.len(), RECALLED.len()];
        assert_eq!(readers.map(|readers| readers as u64), [VERSION; 3]);
    }

    #[test]
    fn a_version_is_a_number_from_1_and_any_larger_one_is_newer() {
        let (exchange, cut) = (full().encode().unwrap(), Cut::default().encode().unwrap());
        let with = |record: &str, version: &str| record.replacen("\"v\":1", &format!("\"v\":{version}"), 1);
        let both = |version: &str| {
            let exchange = Exchange::decode(&with(&exchange, version)).unwrap_err();
            [exchange, Cut::decode(&with(&cut, version)).unwrap_err()]
        };
        for newer in [2, 4_294_967_295, 4_294_967_296, u64::MAX] {
            for error in both(&newer.to_string()) {
                assert!(matches!(error, RecordError::Newer { version, known: 1 } if version == newer), "{error:?}");
            }
        }
        for none in ["0", "-1", "1.0", "null", "\"1\"", "[]", "18446744073709551616"] {
            for error in both(none) {
                assert!(matches!(error, RecordError::Malformed { line: 1, .. }), "{none}: {error:?}");
            }
        }
    }

    /// A possible later step: version 2 would say `start` instead of `window_start`, and nothing else.
    #[test]
    fn a_later_version_reads_the_older_ones_and_refuses_newer_ones() {
        #[derive(Deserialize)]
        struct Next {
            v: Version,
            start: Seq,
        }
        let next: Reader<Cut> = |record| {
            let Next { v, start } = serde_json::from_str(record)?;
            Ok((v, Cut::window_from(start)))
        };
        let readers = [cut_1 as Reader<Cut>, next];
        let cut = Cut::window_from(Seq::new(7));
        assert_eq!(read(&cut.encode().unwrap(), &readers).unwrap(), cut);
        assert_eq!(read(r#"{"v":2,"start":7}"#, &readers).unwrap(), cut);
        assert!(matches!(Cut::decode(r#"{"v":2,"start":7}"#), Err(RecordError::Newer { version: 2, known: 1 })));
        for newer in [r#"{"v":3,"start":7}"#, r#"{"v":3}"#] {
            assert!(matches!(read(newer, &readers), Err(RecordError::Newer { version: 3, known: 2 })), "{newer}");
        }
        // Each version has its own form.
        for malformed in [r#"{"v":1,"start":7}"#, r#"{"v":2,"window_start":7}"#, r#"{"start":7}"#, "{"] {
            assert!(matches!(read(malformed, &readers), Err(RecordError::Malformed { .. })), "{malformed}");
        }
    }
}

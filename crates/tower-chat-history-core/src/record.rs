//! The stored forms of an exchange and of a cut: versioned JSON documents, messages verbatim.
//!
//! Every store that writes bytes writes this form, so a log can move from one store to another. It is text: JSON columns
//! of databases reorder keys and refuse `\u0000`.

use serde::{Deserialize, Serialize};

use crate::{Cut, Exchange, ExchangeId, Message, Seq, Timestamp, TokenCounts, Usage};

/// The version this crate writes, and the newest it reads.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
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
    v: u32,
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
    v: u32,
}

impl Exchange {
    /// The text to store. Its messages stand in it byte for byte.
    ///
    /// # Errors
    ///
    /// Never for an exchange of this crate's own types; the result is there because serializing is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let Self { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete } = self;
        let (at, continues, incomplete) = (*at, *continues, *incomplete);
        let record =
            Written { v: VERSION, id, at, continues, messages, tokens, model, finish_reason, usage, incomplete };
        serde_json::to_string(&record).map_err(RecordError::malformed)
    }

    /// The exchange that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// When the text is no such record, or one of a newer version than this crate knows.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        let Read { v, id, at, continues, messages, tokens, model, finish_reason, usage, incomplete } = read(record)?;
        known(v)?;
        let exchange = Self { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete };
        exchange.share_counts();
        Ok(exchange)
    }
}

/// A cut as it is stored.
#[derive(Serialize, Deserialize)]
struct Versionable<C> {
    v: u32,
    #[serde(flatten)]
    cut: C,
}

impl Cut {
    /// The text to store.
    ///
    /// # Errors
    ///
    /// Never for a cut of this crate's own types; the result is there because serializing is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        serde_json::to_string(&Versionable { v: VERSION, cut: self }).map_err(RecordError::malformed)
    }

    /// The cut that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// When the text is no such record, or one of a newer version than this crate knows.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        let Versionable { v, cut } = read(record)?;
        known(v)?;
        Ok(cut)
    }
}

/// Reads a record. One that a newer version wrote need not have this version's form.
fn read<'a, R: Deserialize<'a>>(record: &'a str) -> Result<R, RecordError> {
    serde_json::from_str(record).map_err(|malformed| {
        let version = serde_json::from_str(record).map_or(VERSION, |Versioned { v }| v);
        known(version).err().unwrap_or_else(|| RecordError::malformed(malformed))
    })
}

fn known(version: u32) -> Result<(), RecordError> {
    if version > VERSION { Err(RecordError::Newer { version }) } else { Ok(()) }
}

/// A stored record that cannot be read. It never quotes the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The text is no record, or was damaged.
    #[error("the record is malformed (line {line}, column {column})")]
    Malformed {
        /// The line in the record, from 1.
        line: usize,
        /// The column in the line, in bytes, from 1.
        column: usize,
    },
    /// The record was written by a newer version of this library.
    #[error("the record has version {version}, and this library reads up to {VERSION}")]
    Newer {
        /// The record's version.
        version: u32,
    },
}

impl RecordError {
    #[allow(clippy::needless_pass_by_value)] // serde_json's error may quote the record: it ends here.
    fn malformed(error: serde_json::Error) -> Self {
        Self::Malformed { line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

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

    /// Stores keep this text for years: a change here is a new version with a reader for the old one.
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
        assert_eq!((cut.encode().unwrap().as_str(), Cut::decode(text).unwrap()), (text, cut));
        assert!(matches!(Cut::decode(&text.replacen('1', "2", 1)), Err(RecordError::Newer { version: 2 })));
        assert!(Cut::decode("{}").is_err());
    }

    #[test]
    fn newer_and_damaged_records_are_told_apart_without_quoting_them() {
        let as_now = full().encode().unwrap().replacen("\"v\":1", "\"v\":2", 1);
        for newer in [r#"{"v":2,"secret":1}"#, &as_now] {
            assert!(matches!(Exchange::decode(newer), Err(RecordError::Newer { version: 2 })), "{newer}");
        }
        let unversioned = full().encode().unwrap().replacen("\"v\":1,", "", 1);
        assert!(Exchange::decode(&unversioned).is_err());
        for damaged in ["", "secret", "{\"v\":1}", &full().encode().unwrap()[..40]] {
            let error = Exchange::decode(damaged).unwrap_err();
            assert!(matches!(error, RecordError::Malformed { .. }) && !error.to_string().contains("secret"), "{error}");
        }
    }
}

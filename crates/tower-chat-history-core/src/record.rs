//! The stored form of an exchange: one versioned JSON document, its messages verbatim.
//!
//! Every store that writes bytes writes this form, so a log can move from one store to another. It is text: JSON columns
//! of databases reorder keys and refuse `\u0000`.

use serde::{Deserialize, Serialize};

use crate::{Exchange, ExchangeId, Message, Seq, Timestamp, TokenCounts, Usage};

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
        let read = serde_json::from_str(record).map_err(|malformed| match serde_json::from_str(record) {
            Ok(Versioned { v }) if v > VERSION => RecordError::Newer { version: v },
            _ => RecordError::malformed(malformed),
        });
        let Read { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete } = read?;
        Ok(Self { id, at, continues, messages, tokens, model, finish_reason, usage, incomplete })
    }
}

/// A stored exchange that cannot be read. It never quotes the record.
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
    fn newer_and_damaged_records_are_told_apart_without_quoting_them() {
        let newer = Exchange::decode(r#"{"v":2,"secret":1}"#).unwrap_err();
        assert!(matches!(newer, RecordError::Newer { version: 2 }));
        for damaged in ["", "secret", "{\"v\":1}", &full().encode().unwrap()[..40]] {
            let error = Exchange::decode(damaged).unwrap_err();
            assert!(matches!(error, RecordError::Malformed { .. }) && !error.to_string().contains("secret"), "{error}");
        }
    }
}

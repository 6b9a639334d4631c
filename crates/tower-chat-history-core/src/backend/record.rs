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
mod tests;

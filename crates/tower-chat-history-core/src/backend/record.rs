//! The stored form of exchanges and compactions: versioned JSON documents with the messages verbatim.
//!
//! Every store that writes to a disk or a network uses this form, so a log can be moved from one store to another.
//! Store it as text and not in a JSON column: databases reorder the keys of JSON columns, and some reject `\u0000`.
//!
//! A record begins with its version number: it is the first member of an object, or the first element of an array.
//! Before release 0.1.0, a version may change in place. From 0.1.0 on, a changed form gets the next number and its own
//! reader, and the readers and frozen test samples of older versions stay.

mod cuts;
mod exchange;
mod provenance;

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

pub use self::exchange::ExchangeRecords;
use self::{exchange::exchange_1, provenance::provenance_1};
use crate::{
    exchange::Exchange,
    message::{self, DialectName, Message},
    provenance::Provenance,
    recalled::{Citation, Recalled},
};

/// The version that this crate writes, for exchanges, compactions, recalled messages and provenances.
const VERSION: u64 = 1;

/// Reads a record of one version, and returns the version number in it and the value.
type Reader<T> = fn(&str) -> Result<(Version, T), serde_json::Error>;

/// The readers of all versions from 1 on. The last one reads [`VERSION`].
const EXCHANGES: &[Reader<Exchange>] = &[exchange_1];
const RECALLED: &[Reader<ReadRecalled>] = &[recalled_1];
const PROVENANCES: &[Reader<Provenance>] = &[provenance_1];

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

#[derive(Deserialize)]
struct Versioned {
    v: Version,
}

/// The version at the beginning of an array. The other places are checked and forgotten.
struct FirstPlace(Version);

impl<'de> Deserialize<'de> for FirstPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PlacesVisitor;

        impl<'de> Visitor<'de> for PlacesVisitor {
            type Value = FirstPlace;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array that begins with a version")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut places: A) -> Result<FirstPlace, A::Error> {
                let version = places.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                while places.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstPlace(version))
            }
        }

        deserializer.deserialize_seq(PlacesVisitor)
    }
}

/// Returns the message with this JSON. It has no index if the dialect is unknown.
fn message(name: &DialectName, json: Box<RawValue>) -> Result<Message, serde_json::Error> {
    match message::dialect::known(name) {
        Some(dialect) => Message::in_dialect_unchecked(dialect, json.into()).map_err(serde_json::Error::custom),
        None => Ok(Message::unread(json.into())),
    }
}

const fn none<T>() -> Option<T> {
    None
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

/// Recalled messages whose dialect is that of their exchange.
type ReadRecalled = StoredRecalled<Version, Box<RawValue>, Vec<Citation>>;

impl ReadRecalled {
    fn in_dialect(self, name: &DialectName) -> Result<Recalled, RecordError> {
        let Self { message: json, citations, tokens, .. } = self;
        let message = message(name, json).map_err(RecordError::malformed)?;
        Ok(Recalled { message, citations, tokens })
    }
}

impl Recalled {
    /// Returns the text to store next to the exchange's record. It contains the message byte for byte.
    ///
    /// # Errors
    ///
    /// Never fails for a value of this crate's own types. It returns a `Result` because serialization is fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let Self { message, citations, tokens } = self;
        encoded(&StoredRecalled { v: VERSION, message, citations, tokens: *tokens })
    }
}

fn recalled_1(record: &str) -> Result<(Version, ReadRecalled), serde_json::Error> {
    let recalled: ReadRecalled = serde_json::from_str(record)?;
    Ok((recalled.v, recalled))
}

fn encoded(record: &impl Serialize) -> Result<String, RecordError> {
    serde_json::to_string(record).map_err(RecordError::malformed)
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
    let Version(version) = match version(record) {
        Ok(version) => version,
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

/// Returns the version of a record: an object has it by name, and an array begins with it.
fn version(record: &str) -> Result<Version, serde_json::Error> {
    if let Ok(FirstPlace(version)) = serde_json::from_str(record) {
        return Ok(version);
    }
    serde_json::from_str(record).map(|Versioned { v }| v)
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

//! Replies of scripts: a word, followed by its values.

use std::vec;

use redis::Value;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Incarnation, Profile, Recorded, Revision, Seq, StoreError,
    backend::ExchangeRecords,
};

use crate::{
    entry::Entry,
    error::{Damaged, UnexpectedReply},
    recalled,
};

/// A reply, read from its first element to its last.
///
/// Each element must have the expected type. The conversions of redis-rs are not used, because their errors quote
/// values.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) word: String,
    values: vec::IntoIter<Value>,
}

impl Reply {
    /// Reads the word of a reply.
    pub(crate) fn new(answer: Value) -> Result<Self, StoreError> {
        let Value::Array(values) = answer else { return Err(UnexpectedReply::error()) };
        let mut reply = Self { word: String::new(), values: values.into_iter() };
        reply.word = reply.text()?;
        if reply.word == "gone" { Err(StoreError::Gone) } else { Ok(reply) }
    }

    fn next(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Nil)
    }

    pub(crate) fn number(&mut self) -> Result<u64, StoreError> {
        match self.next() {
            Value::Int(number) => u64::try_from(number).map_err(|_| UnexpectedReply::error()),
            _ => Err(UnexpectedReply::error()),
        }
    }

    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        optional_bytes(self.next())
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(bytes(self.next())?).map_err(|_| UnexpectedReply::error())
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Value>, StoreError> {
        match self.next() {
            Value::Array(values) | Value::Set(values) => Ok(values),
            Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect()),
            _ => Err(UnexpectedReply::error()),
        }
    }

    /// Reads a revision: incarnation, next position and first position.
    pub(crate) fn revision(&mut self) -> Result<Revision, StoreError> {
        let incarnation = self.optional_bytes()?.unwrap_or_default();
        let incarnation = incarnation.try_into().map_err(|_| UnexpectedReply::error())?;
        let revision = Revision::new(Incarnation::from_bytes(incarnation), self.number()?);
        Ok(revision.beginning_at(Seq::new(self.number()?)))
    }

    /// Reads the version of a compaction, which is a text.
    pub(crate) fn compaction_version(&mut self) -> Result<CompactionVersion, StoreError> {
        self.text()?.parse().map(CompactionVersion::new).map_err(|_| UnexpectedReply::error())
    }

    /// Reads the reply that the server's memory is full, and converts it to a `Full` error. The error has the memory
    /// use and the limit that the server reports, or 0 for a number that it does not report.
    pub(crate) fn full(&mut self, requested: usize) -> Result<StoreError, StoreError> {
        let info = self.text()?;
        let number = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
        };
        Ok(StoreError::Full { used: number("used_memory"), requested, limit: number("maxmemory") })
    }

    /// Reads a revision, or `None` if the reply ends here.
    pub(crate) fn optional_revision(&mut self) -> Result<Option<Revision>, StoreError> {
        if self.values.as_slice().is_empty() { Ok(None) } else { self.revision().map(Some) }
    }

    /// Reads a compaction, or `None` if there is none: its numbers, the writer's bytes, and the derived text.
    pub(crate) fn compaction(
        &mut self,
        id: &ConversationId,
        profile: &Profile,
    ) -> Result<Option<Compaction>, StoreError> {
        let numbers = self.optional_bytes()?;
        let state = self.optional_bytes()?;
        let derived = self.optional_bytes()?;
        let Some(numbers) = numbers else { return Ok(None) };
        match compaction(&numbers, state, derived) {
            Some(compaction) => Ok(Some(compaction)),
            None => Err(corrupt_compaction(id, profile)),
        }
    }

    /// Reads the exchanges from a position on. Each record must match its entry.
    pub(crate) fn exchanges(&mut self, id: &ConversationId, from: u64) -> Result<Vec<Recorded>, StoreError> {
        let stored = self.stored(id, from)?;
        let mut exchanges = Vec::with_capacity(stored.len());
        for (seq, stored) in (from..).zip(stored) {
            let recorded = decode(id, seq, &stored.record, &stored.recalled, &stored.provenance)?;
            if !Entry::new(&stored.entry).is_some_and(|entry| entry.matches(&recorded.exchange)) {
                return Err(Damaged::error(id, seq));
            }
            exchanges.push(recorded);
        }
        Ok(exchanges)
    }

    /// Reads the exchanges from a position on as they are stored: their records, their index entries, their recalled
    /// messages and their provenances.
    pub(crate) fn stored(&mut self, id: &ConversationId, from: u64) -> Result<Vec<Stored>, StoreError> {
        let records = self.list()?;
        let entries = self.list()?;
        let mut recalled = self.list()?.into_iter();
        let mut provenances = self.list()?.into_iter();

        // There are as many provenances as exchanges, or none if all are empty.
        if records.len() != entries.len() || ![0, records.len()].contains(&provenances.len()) {
            return Err(UnexpectedReply::error());
        }

        let mut exchanges = Vec::with_capacity(records.len());
        for (seq, (record, entry)) in (from..).zip(records.into_iter().zip(entries)) {
            let entry = bytes(entry)?;
            let has_recalled = Entry::new(&entry).ok_or_else(|| Damaged::error(id, seq))?.has_recalled;
            exchanges.push(Stored {
                record: bytes(record)?,
                entry,
                recalled: if has_recalled { bytes(recalled.next().unwrap_or(Value::Nil))? } else { Vec::new() },
                provenance: provenances.next().map(bytes).transpose()?.unwrap_or_default(),
            });
        }
        Ok(exchanges)
    }

    /// Reads the record of the exchange at a position, its recalled messages and its provenance.
    pub(crate) fn exchange(&mut self, id: &ConversationId, seq: u64) -> Result<Recorded, StoreError> {
        let record = bytes(self.next())?;
        let recalled = bytes(self.next())?;
        let provenance = bytes(self.next())?;
        decode(id, seq, &record, &recalled, &provenance)
    }

    /// Reads a list of numbers.
    pub(crate) fn numbers(&mut self) -> Result<Vec<u64>, StoreError> {
        let number = |value| match value {
            Value::Int(number) => u64::try_from(number).map_err(|_| UnexpectedReply::error()),
            _ => Err(UnexpectedReply::error()),
        };
        self.list()?.into_iter().map(number).collect()
    }

    /// Reads a list of ids.
    pub(crate) fn ids(&mut self) -> Result<Vec<ConversationId>, StoreError> {
        let id = |value| match value {
            Value::BulkString(bytes) => std::str::from_utf8(&bytes).ok()?.parse().ok(),
            _ => None,
        };
        self.list()?.into_iter().map(|value| id(value).ok_or_else(UnexpectedReply::error)).collect()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An exchange as it is stored.
pub(crate) struct Stored {
    pub(crate) record: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    /// It is empty if there are none, or if they were erased.
    pub(crate) recalled: Vec<u8>,
    /// It is empty if there is none.
    pub(crate) provenance: Vec<u8>,
}

/// Decodes the exchange at a position. Its recalled messages and its provenance are empty if there are none.
fn decode(
    id: &ConversationId,
    seq: u64,
    record: &[u8],
    recalled: &[u8],
    provenance: &[u8],
) -> Result<Recorded, StoreError> {
    let seq = Seq::new(seq);
    let corrupt = |source: BoxError| StoreError::Corrupt { conversation: id.clone(), seq, source };
    let text = std::str::from_utf8(record).map_err(|error| corrupt(error.into()))?;
    let recalled = recalled::from_value(recalled).map_err(corrupt)?;
    let provenance = std::str::from_utf8(provenance).map_err(|error| corrupt(error.into()))?;
    let provenance = Some(provenance).filter(|record| !record.is_empty());
    let records = ExchangeRecords { exchange: text, recalled, provenance };
    let exchange = records.decode().map_err(|error| corrupt(error.into()))?;
    Ok(Recorded::new(seq, exchange))
}

fn bytes(value: Value) -> Result<Vec<u8>, StoreError> {
    optional_bytes(value)?.ok_or_else(UnexpectedReply::error)
}

fn optional_bytes(value: Value) -> Result<Option<Vec<u8>>, StoreError> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(Some(text.into_bytes())),
        Value::Nil => Ok(None),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Decodes a compaction from its three fields. Returns `None` if they are damaged.
fn compaction(numbers: &[u8], state: Option<Vec<u8>>, derived: Option<Vec<u8>>) -> Option<Compaction> {
    let mut numbers = std::str::from_utf8(numbers).ok()?.split(' ');
    let version = CompactionVersion::new(numbers.next()?.parse().ok()?);
    let window_start = Seq::new(numbers.next()?.parse().ok()?);
    let derived = match numbers.next()? {
        "0" => None,
        "1" => Some(derived?.into()),
        _ => return None,
    };
    Some(Compaction::new(version, window_start, state?.into(), derived))
}

pub(crate) fn corrupt_compaction(id: &ConversationId, profile: &Profile) -> StoreError {
    StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source: Box::new(Damaged) }
}

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
        match self.next() {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(Some(text.into_bytes())),
            Value::Nil => Ok(None),
            _ => Err(UnexpectedReply::error()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let bytes = self.optional_bytes()?.ok_or_else(UnexpectedReply::error)?;
        String::from_utf8(bytes).map_err(|_| UnexpectedReply::error())
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

    /// Reads the exchanges from a position on: their records, their index entries, their recalled messages and their
    /// provenances. Each record must match its entry.
    pub(crate) fn exchanges(&mut self, id: &ConversationId, from: u64) -> Result<Vec<Recorded>, StoreError> {
        let (records, entries, recalled, provenances) = (self.list()?, self.list()?, self.list()?, self.list()?);
        // There are as many provenances as exchanges, or none at all.
        if records.len() != entries.len() || !(provenances.is_empty() || provenances.len() == records.len()) {
            return Err(UnexpectedReply::error());
        }
        let (mut exchanges, mut recalled) = (Vec::with_capacity(records.len()), recalled.into_iter());
        let mut provenances = provenances.into_iter();
        for (seq, (record, entry)) in (from..).zip(records.into_iter().zip(entries)) {
            let Value::BulkString(entry) = entry else { return Err(UnexpectedReply::error()) };
            let entry = Entry::new(&entry).ok_or_else(|| Damaged::error(id, seq))?;
            let recalled = match entry.has_recalled {
                true => Some(recalled.next().ok_or_else(UnexpectedReply::error)?),
                false => None,
            };
            let recorded = exchange(id, seq, record, recalled, provenances.next().unwrap_or(Value::Nil))?;
            if !entry.matches(&recorded.exchange) {
                return Err(Damaged::error(id, seq));
            }
            exchanges.push(recorded);
        }
        Ok(exchanges)
    }

    /// Reads the record of the exchange at a position, its recalled messages and its provenance.
    pub(crate) fn exchange(&mut self, id: &ConversationId, seq: u64) -> Result<Recorded, StoreError> {
        let record = self.next();
        let recalled = self.next();
        exchange(id, seq, record, Some(recalled), self.next())
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

/// Decodes a record, the value of the recalled messages if there is one, and the provenance, which may be nil.
fn exchange(
    id: &ConversationId,
    seq: u64,
    record: Value,
    recalled: Option<Value>,
    provenance: Value,
) -> Result<Recorded, StoreError> {
    let seq = Seq::new(seq);
    let corrupt = |source: BoxError| StoreError::Corrupt { conversation: id.clone(), seq, source };
    let Value::BulkString(record) = record else { return Err(UnexpectedReply::error()) };
    let recalled = match recalled {
        Some(Value::BulkString(value)) => value,
        Some(_) => return Err(UnexpectedReply::error()),
        None => Vec::new(),
    };
    let provenance = match provenance {
        Value::BulkString(value) => Some(value),
        Value::Nil => None,
        _ => return Err(UnexpectedReply::error()),
    };
    let text = std::str::from_utf8(&record).map_err(|error| corrupt(error.into()))?;
    let recalled = recalled::from_value(&recalled).map_err(corrupt)?;
    let provenance = provenance.as_deref().map(std::str::from_utf8).transpose();
    let provenance = provenance.map_err(|error| corrupt(error.into()))?;
    let records = ExchangeRecords { exchange: text, recalled, provenance };
    let exchange = records.decode().map_err(|error| corrupt(error.into()))?;
    Ok(Recorded::new(seq, exchange))
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

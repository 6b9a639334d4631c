//! Replies of scripts: a word, followed by its values.

use std::vec;

use redis::Value;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Incarnation, Profile, Recorded, Revision, Seq, StoreError,
};

use crate::{
    error::{LayoutError, UnexpectedReply},
    stored::{Entry, StoredExchange, decode},
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
        number(&self.next())
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
        let used = number_in(&info, "used_memory");
        let limit = number_in(&info, "maxmemory");
        Ok(StoreError::Full { used, requested, limit })
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
                return Err(LayoutError::damaged(id, seq));
            }
            exchanges.push(recorded);
        }

        Ok(exchanges)
    }

    /// Reads the exchanges from a position on as they are stored: their records, their index entries, their recalled
    /// messages and their provenances.
    pub(crate) fn stored(&mut self, id: &ConversationId, from: u64) -> Result<Vec<StoredExchange>, StoreError> {
        let records = self.list()?;
        let entries = self.list()?;
        let mut recalled = self.list()?.into_iter();
        let provenances = bytes(self.next())?;

        // There are as many provenances as exchanges, or none if all are empty.
        let lines = memchr::memchr_iter(b'\n', &provenances).count() + 1;
        if records.len() != entries.len() {
            return Err(UnexpectedReply::error());
        }
        if !provenances.is_empty() && lines != records.len() {
            // A provenance has no line break, so one of them is damaged. A read of one exchange names its position.
            return Err(LayoutError::damaged(id, from));
        }
        let mut provenances = &*provenances;

        let mut exchanges = Vec::with_capacity(records.len());
        for (seq, (record, entry)) in (from..).zip(records.into_iter().zip(entries)) {
            let entry = bytes(entry)?;
            let has_recalled = Entry::new(&entry).ok_or_else(|| LayoutError::damaged(id, seq))?.has_recalled;

            let line = memchr::memchr(b'\n', provenances).unwrap_or(provenances.len());
            let (provenance, others) = provenances.split_at(line);
            provenances = others.get(1..).unwrap_or_default();

            exchanges.push(StoredExchange {
                record: bytes(record)?,
                entry,
                recalled: if has_recalled { bytes(recalled.next().unwrap_or(Value::Nil))? } else { Vec::new() },
                provenance: provenance.to_vec(),
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
        self.list()?.iter().map(number).collect()
    }

    /// Reads a list of ids.
    pub(crate) fn ids(&mut self) -> Result<Vec<ConversationId>, StoreError> {
        self.list()?.into_iter().map(conversation_id).collect()
    }
}

fn number(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| UnexpectedReply::error()),
        _ => Err(UnexpectedReply::error()),
    }
}

fn conversation_id(value: Value) -> Result<ConversationId, StoreError> {
    let id = String::from_utf8(bytes(value)?).map_err(|_| UnexpectedReply::error())?;
    id.parse().map_err(|_| UnexpectedReply::error())
}

/// Returns a number of the answer to `INFO`, or 0 if there is none of this name.
fn number_in(info: &str, name: &str) -> usize {
    let number = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
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
    StoreError::CorruptCompaction {
        conversation: id.clone(),
        profile: profile.clone(),
        source: Box::new(LayoutError::Damaged),
    }
}

/// Returns the text of an answer to a command that is not a script.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

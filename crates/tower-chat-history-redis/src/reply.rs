//! What the scripts answer: a word, and then what belongs to it.

use std::vec;

use redis::Value;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Exchange, Incarnation, Profile, Recorded, Revision, Seq,
    StoreError,
};

use crate::{
    entry::{Entry, Sums},
    error::{Damaged, Misunderstood},
};

/// An answer, read from its first element to its last.
///
/// Elements are taken as the types they must have. None of redis-rs's own conversions is used: their errors quote values.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) word: String,
    values: vec::IntoIter<Value>,
}

impl Reply {
    /// Takes an answer apart.
    pub(crate) fn new(answer: Value) -> Result<Self, StoreError> {
        let Value::Array(values) = answer else { return Err(Misunderstood::error()) };
        let mut reply = Self { word: String::new(), values: values.into_iter() };
        reply.word = reply.text()?;
        if reply.word == "gone" { Err(StoreError::Gone) } else { Ok(reply) }
    }

    fn next(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Nil)
    }

    pub(crate) fn number(&mut self) -> Result<u64, StoreError> {
        match self.next() {
            Value::Int(number) => u64::try_from(number).map_err(|_| Misunderstood::error()),
            _ => Err(Misunderstood::error()),
        }
    }

    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next() {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(Some(text.into_bytes())),
            Value::Nil => Ok(None),
            _ => Err(Misunderstood::error()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let bytes = self.optional_bytes()?.ok_or_else(Misunderstood::error)?;
        String::from_utf8(bytes).map_err(|_| Misunderstood::error())
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Value>, StoreError> {
        match self.next() {
            Value::Array(values) | Value::Set(values) => Ok(values),
            Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect()),
            _ => Err(Misunderstood::error()),
        }
    }

    /// Incarnation, next position and first position.
    pub(crate) fn revision(&mut self, id: &ConversationId) -> Result<Revision, StoreError> {
        let incarnation = self.optional_bytes()?.unwrap_or_default();
        let incarnation = incarnation.try_into().map_err(|_| Damaged::error(id, 0))?;
        let revision = Revision::new(Incarnation::from_bytes(incarnation), self.number()?);
        Ok(revision.beginning_at(Seq::new(self.number()?)))
    }

    /// The same, where there may be no conversation.
    pub(crate) fn optional_revision(&mut self, id: &ConversationId) -> Result<Option<Revision>, StoreError> {
        if self.values.as_slice().is_empty() { Ok(None) } else { self.revision(id).map(Some) }
    }

    /// A compaction's positions and its record, if there is one.
    pub(crate) fn compaction(
        &mut self,
        id: &ConversationId,
        profile: &Profile,
    ) -> Result<Option<Compaction>, StoreError> {
        let (Some(positions), record) = (self.optional_bytes()?, self.optional_bytes()?) else { return Ok(None) };
        compaction(&positions, &record.unwrap_or_default())
            .map(Some)
            .map_err(|source| corrupt_compaction(id, profile, source))
    }

    /// The records of exchanges that stand one after the other from a position on, then their index entries, and then
    /// the sums at the end of a log of that length. Each must be of the exchange that the others are of.
    pub(crate) fn exchanges(&mut self, id: &ConversationId, from: u64, len: u64) -> Result<Vec<Recorded>, StoreError> {
        let (records, entries) = (self.list()?, self.list()?);
        let end = Sums { messages: self.number()?, bytes: self.number()?, openings: self.number()? };
        if records.len() != entries.len() {
            return Err(Damaged::error(id, from));
        }
        let (mut exchanges, mut before) = (Vec::with_capacity(records.len()), None);
        for (seq, (record, entry)) in (from..).zip(records.into_iter().zip(entries)) {
            let recorded = exchange(id, seq, record)?;
            let Value::BulkString(entry) = entry else { return Err(Misunderstood::error()) };
            let entry = Entry::new(&entry).filter(|entry| entry.is_of(&recorded.exchange));
            let entry = entry.ok_or_else(|| Damaged::error(id, seq))?;
            let after = entry.after();
            if before.is_some_and(|before| before != entry.before) || seq + 1 == len && after != end {
                return Err(Damaged::error(id, seq));
            }
            before = Some(after);
            exchanges.push(recorded);
        }
        Ok(exchanges)
    }

    /// The record of the exchange at a position.
    pub(crate) fn exchange(&mut self, id: &ConversationId, seq: u64) -> Result<Recorded, StoreError> {
        exchange(id, seq, self.next())
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn exchange(id: &ConversationId, seq: u64, record: Value) -> Result<Recorded, StoreError> {
    let seq = Seq::new(seq);
    let corrupt = |source: BoxError| StoreError::Corrupt { conversation: id.clone(), seq, source };
    let Value::BulkString(record) = record else { return Err(Misunderstood::error()) };
    let text = std::str::from_utf8(&record).map_err(|error| corrupt(error.into()))?;
    let exchange = Exchange::decode(text).map_err(|error| corrupt(error.into()))?;
    Ok(Recorded::new(seq, exchange))
}

/// Reads a compaction from its two fields.
pub(crate) fn compaction(positions: &[u8], record: &[u8]) -> Result<Compaction, BoxError> {
    let cut = Cut::decode(std::str::from_utf8(record)?)?;
    let positions = std::str::from_utf8(positions)?;
    let numbers: Vec<u64> = positions.split(' ').map_while(|number| number.parse().ok()).take(5).collect();
    // The scripts work with the positions, the callers with the record: both must be of one compaction.
    match numbers[..] {
        [version, window, rounds, cleared, covers] if [window, rounds, cleared, covers] == positions_of(&cut) => {
            Ok(Compaction::new(CompactionVersion::new(version), cut))
        }
        _ => Err(Box::new(Damaged)),
    }
}

/// The four positions of a cut.
pub(crate) fn positions_of(cut: &Cut) -> [u64; 4] {
    [cut.window_start.get(), cut.rounds_start.get(), cut.cleared_before.get(), cut.covers_to().get()]
}

pub(crate) fn corrupt_compaction(id: &ConversationId, profile: &Profile, source: BoxError) -> StoreError {
    StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source }
}

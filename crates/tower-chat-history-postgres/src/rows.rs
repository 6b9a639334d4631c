//! The rows of a conversation.

use tokio::task::spawn_blocking;
use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Incarnation, Profile, Recorded, Revision, Seq, StoreError,
    backend::ExchangeRecords,
};
use uuid::Uuid;

use crate::error::{Failure, PostgresError};

/// Records of this total size or more, in bytes, are parsed on a blocking thread, because that takes milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 256 << 10;

/// Converts a number for PostgreSQL. No stored number comes near the maximum.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from PostgreSQL. No stored number is negative.
pub(crate) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

pub(crate) const fn uuid(incarnation: Incarnation) -> Uuid {
    Uuid::from_bytes(*incarnation.as_bytes())
}

pub(crate) fn revision(incarnation: Uuid, len: i64, first: i64) -> Revision {
    Revision::new(Incarnation::from_bytes(*incarnation.as_bytes()), count(len)).beginning_at(Seq::new(count(first)))
}

/// A conversation's row, locked for a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The sums of messages, bytes and media over all exchanges.
    pub(crate) sums: [i64; 3],
}

impl Log {
    pub(crate) fn from_row(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            id: row.try_get(0)?,
            revision: revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
            sums: [row.try_get(4)?, row.try_get(5)?, row.try_get(6)?],
        })
    }

    pub(crate) const fn first(&self) -> u64 {
        self.revision.first().get()
    }

    /// Returns the position of the next exchange.
    pub(crate) const fn len(&self) -> u64 {
        self.revision.version()
    }
}

/// A conversation's row as a transaction reads it, without its counters.
#[derive(Debug)]
pub(crate) struct ConversationRow {
    pub(crate) number: i64,
    pub(crate) id: ConversationId,
    pub(crate) has_labels: bool,
}

impl ConversationRow {
    pub(crate) fn read(row: &Row) -> Result<Self, Failure> {
        let key: &str = row.try_get(7)?;
        let id = key.parse().map_err(|_| PostgresError::Protocol)?;
        Ok(Self { number: row.try_get(0)?, id, has_labels: row.try_get(8)? })
    }
}

/// Returns the revision in a conversation's row, as returned by the functions that read.
pub(crate) fn revision_of(row: &Row) -> Result<Revision, Failure> {
    Ok(revision(row.try_get("r_incarnation")?, row.try_get("r_len")?, row.try_get("r_first")?))
}

/// Removes the conversation's own row, which is the one whose first column is null. The others stay in their order.
pub(crate) fn take_head(rows: &mut Vec<Row>) -> Option<Row> {
    let head = rows.iter().position(|row| matches!(row.try_get::<_, Option<i64>>(0), Ok(None)))?;
    Some(rows.remove(head))
}

/// Reads the compaction in a row of a log of length `len`, or `None` if there is none. Its columns begin at `column`.
pub(crate) fn compaction(
    id: &ConversationId,
    len: u64,
    profile: &Profile,
    row: &Row,
    column: usize,
) -> Result<Option<Compaction>, Failure> {
    let Some(version) = row.try_get::<_, Option<i64>>(column)? else { return Ok(None) };
    let window_start: i64 = row.try_get(column + 1)?;
    let state: &[u8] = row.try_get(column + 2)?;
    let derived: Option<&[u8]> = row.try_get(column + 3)?;

    if version < 1 || window_start < 0 || count(window_start) >= len {
        let source = Damage::Compaction.into();
        return Err(StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source }.into());
    }

    let version = CompactionVersion::new(count(version));
    let window_start = Seq::new(count(window_start));
    Ok(Some(Compaction::new(version, window_start, state.into(), derived.map(Into::into))))
}

/// The columns of an exchange, with which the results of the functions that read begin.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const BODY: usize = 1;
    pub(super) const RECALLED: usize = 2;
    pub(super) const PROVENANCE: usize = 3;
}

/// Decodes the rows of exchanges, which may be in any order.
pub(crate) async fn exchanges(id: &ConversationId, mut rows: Vec<Row>) -> Result<Vec<Recorded>, Failure> {
    rows.sort_by_key(|row| row.try_get::<_, i64>(column::SEQ).unwrap_or_default());
    let large = rows.iter().map(|row| row.raw_size_bytes()).sum::<usize>() > BLOCKING_THRESHOLD_BYTES;
    if !large {
        return decode(id, &rows);
    }

    let conversation = id.clone();
    let decoding = spawn_blocking(move || decode(&conversation, &rows));
    // This fails only if the runtime shuts down.
    decoding.await.unwrap_or_else(|_| Err(PostgresError::NoRuntime.into()))
}

fn decode(id: &ConversationId, rows: &[Row]) -> Result<Vec<Recorded>, Failure> {
    rows.iter().map(|row| exchange(id, row)).collect()
}

fn exchange(id: &ConversationId, row: &Row) -> Result<Recorded, Failure> {
    let seq = Seq::new(count(row.try_get(column::SEQ)?));
    let records = ExchangeRecords {
        exchange: row.try_get(column::BODY)?,
        recalled: row.try_get(column::RECALLED)?,
        provenance: row.try_get(column::PROVENANCE)?,
    };

    let exchange = records.decode().map_err(|error| StoreError::Corrupt {
        conversation: id.clone(),
        seq,
        source: error.into(),
    })?;
    Ok(Recorded::new(seq, exchange))
}

/// A row that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("the compaction's version or the start of its window is out of range")]
    Compaction,
    #[error("the labels of a conversation cannot be read")]
    Labels,
}

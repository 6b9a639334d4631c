//! The rows of a conversation.

mod exchanges;

use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Incarnation, Profile, Revision, Seq, StoreError,
};
use uuid::Uuid;

pub(crate) use self::exchanges::exchanges;
use crate::error::Failure;

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
    /// The sums of messages and bytes over all exchanges.
    pub(crate) sums: [i64; 2],
}

impl Log {
    pub(crate) fn from_row(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            id: row.try_get(0)?,
            revision: revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
            sums: [row.try_get(4)?, row.try_get(5)?],
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

/// Returns the revision in a conversation's row, as returned by the functions that read.
pub(crate) fn revision_of(row: &Row) -> Result<Revision, Failure> {
    Ok(revision(row.try_get("r_incarnation")?, row.try_get("r_len")?, row.try_get("r_first")?))
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
        let source = Damaged::Compaction.into();
        let (conversation, profile) = (id.clone(), profile.clone());
        return Err(StoreError::CorruptCompaction { conversation, profile, source }.into());
    }
    let version = CompactionVersion::new(count(version));
    let window_start = Seq::new(count(window_start));
    Ok(Some(Compaction::new(version, window_start, state.into(), derived.map(Into::into))))
}

/// A row that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("the compaction's version or the start of its window is out of range")]
    Compaction,
    #[error("the labels of a conversation cannot be read")]
    Labels,
}

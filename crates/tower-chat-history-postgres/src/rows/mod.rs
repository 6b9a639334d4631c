//! The rows of a conversation.

mod exchanges;

use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Incarnation, Profile, Revision, Seq, StoreError,
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

/// Converts the version of a stored compaction. Versions count from 1, and the largest has no successor.
pub(crate) fn compaction_version(stored: i64) -> Option<CompactionVersion> {
    (1..i64::MAX).contains(&stored).then(|| CompactionVersion::new(count(stored)))
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

/// Decodes the compaction of a row. Its positions must match its record, and fit a log of length `len`.
pub(crate) fn compaction(
    id: &ConversationId,
    len: u64,
    profile: &Profile,
    version: i64,
    positions: &[i64],
    body: &str,
) -> Result<Compaction, StoreError> {
    let corrupt = |source| StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source };
    // A record that cannot be read is reported before an invalid version.
    let number = compaction_version(version);
    let compaction = Compaction::decode(number.unwrap_or_default(), body).map_err(|error| corrupt(error.into()))?;
    if number.is_none() {
        return Err(corrupt(Damaged::CompactionVersion.into()));
    }
    if positions != positions_of(&compaction.cut) {
        return Err(corrupt(Damaged::OtherCompaction.into()));
    }
    compaction.cut.check(None, len, |_| true).map_err(|error| corrupt(error.into()))?;
    Ok(compaction)
}

/// Returns the positions of a cut in the order of their columns.
pub(crate) fn positions_of(cut: &Cut) -> [i64; 7] {
    let Cut { window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, .. } = *cut;
    [window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, cut.covers_to()]
        .map(|seq| stored(seq.get()))
}

/// A row that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("the record belongs to another compaction")]
    OtherCompaction,
    #[error("the compaction's version is out of range")]
    CompactionVersion,
    #[error("the labels of a conversation cannot be read")]
    Labels,
}

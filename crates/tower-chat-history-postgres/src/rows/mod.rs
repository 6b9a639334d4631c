//! The rows of a conversation.

mod exchanges;

use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Incarnation, Profile, Recorded, Revision, Seq, StoreError,
};
use uuid::Uuid;

pub(crate) use self::exchanges::exchanges;
use crate::error::Failure;

/// Converts a number for PostgreSQL. No stored number comes near the maximum.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from PostgreSQL. A negative number becomes 0: only another program can have written it.
pub(crate) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

pub(crate) const fn uuid(incarnation: Incarnation) -> Uuid {
    Uuid::from_bytes(*incarnation.as_bytes())
}

pub(crate) fn revision(incarnation: Uuid, version: i64, first: i64) -> Revision {
    Revision::new(Incarnation::from_bytes(*incarnation.as_bytes()), count(version)).beginning_at(Seq::new(count(first)))
}

/// Converts the version of a stored compaction. Versions count from 1, and the largest has no successor.
pub(crate) fn compaction_version(stored: i64) -> Option<CompactionVersion> {
    (1..i64::MAX).contains(&stored).then(|| CompactionVersion::new(count(stored)))
}

/// The numbers in a conversation's row.
#[derive(Debug, Clone, Copy)]
struct Counters {
    version: i64,
    first: i64,
    len: i64,
    opening: i64,
    messages: i64,
    bytes: i64,
}

impl Counters {
    /// An upper limit for sums. No sum of this store comes near it, and adding to a smaller one cannot overflow.
    const MAX_SUM: i64 = 1 << 62;

    /// Checks that the numbers do not contradict each other. The functions that write make the same check.
    ///
    /// A log is never empty and begins with an opening. Each change of it added an exchange, which counts as at least
    /// one message.
    fn check(self, id: &ConversationId) -> Result<(), StoreError> {
        let Self { version, first, len, opening, messages, bytes } = self;
        let in_order = 0 <= first && first <= opening && opening < len && len == version && len <= messages;
        if in_order && messages < Self::MAX_SUM && (0..Self::MAX_SUM).contains(&bytes) {
            return Ok(());
        }
        Err(corrupt(id, count(first), Damaged::Counters))
    }
}

/// A conversation's row, locked for a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The position of the next exchange.
    pub(crate) len: u64,
    /// The sums of messages and bytes over all exchanges.
    pub(crate) sums: [i64; 2],
}

impl Log {
    pub(crate) fn from_row(id: &ConversationId, row: &Row) -> Result<Self, Failure> {
        let counters = Counters {
            version: row.try_get(2)?,
            first: row.try_get(3)?,
            len: row.try_get(4)?,
            opening: row.try_get(5)?,
            messages: row.try_get(6)?,
            bytes: row.try_get(7)?,
        };
        counters.check(id)?;
        let Counters { version, first, len, messages, bytes, .. } = counters;
        let revision = revision(row.try_get(1)?, version, first);
        Ok(Self { id: row.try_get(0)?, revision, len: count(len), sums: [messages, bytes] })
    }

    pub(crate) const fn first(&self) -> u64 {
        self.revision.first().get()
    }
}

/// A conversation's row, as returned by the functions that read. The columns have the same names in all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    /// The position of the next exchange.
    pub(crate) len: u64,
    /// The position of the newest exchange that opens a turn.
    opening: u64,
    /// The sums of messages and bytes over all exchanges.
    sums: [i64; 2],
}

impl Head {
    /// Reads a conversation's row and checks its counters.
    pub(crate) fn from_row(id: &ConversationId, row: &Row) -> Result<Self, Failure> {
        let counters = Counters {
            version: row.try_get("r_version")?,
            first: row.try_get("r_first")?,
            len: row.try_get("r_len")?,
            opening: row.try_get("r_opening")?,
            messages: row.try_get("r_messages")?,
            bytes: row.try_get("r_bytes")?,
        };
        counters.check(id)?;
        let Counters { version, first, len, opening, messages, bytes } = counters;
        let revision = revision(row.try_get("r_incarnation")?, version, first);
        Ok(Self { revision, len: count(len), opening: count(opening), sums: [messages, bytes] })
    }

    /// Returns `true` if a position is in the log.
    pub(crate) fn has(&self, seq: i64) -> bool {
        seq >= 0 && (self.revision.first().get()..self.len).contains(&count(seq))
    }

    /// Returns the size of the log, in bytes, if the exchanges before it have this size.
    pub(crate) fn bytes_after(&self, before: i64) -> u64 {
        count(self.sums[1].saturating_sub(before))
    }

    /// Checks the row's position of the newest opening against a window.
    pub(crate) fn check_window(&self, id: &ConversationId, exchanges: &[Recorded]) -> Result<(), StoreError> {
        // A window has the newest opening.
        self.check_end(id, self.opening, exchanges)
    }

    /// Checks the row's position of the newest opening against the exchanges from a position on.
    pub(crate) fn check_end(&self, id: &ConversationId, from: u64, exchanges: &[Recorded]) -> Result<(), StoreError> {
        let newest = exchanges.iter().rev().find(|recorded| recorded.exchange.opens_turn());
        let expected = Some(self.opening).filter(|opening| *opening >= from);
        if newest.map(|newest| newest.seq.get()) == expected {
            Ok(())
        } else {
            Err(corrupt(id, self.opening, Damaged::Counters))
        }
    }
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

/// Converts the failure of a statement that adds and subtracts counters: if they overflow, the counters are damaged.
pub(crate) fn or_damaged_counters(id: &ConversationId, failure: Failure) -> Failure {
    match failure {
        Failure::Postgres(error) if error.is_out_of_range() => damaged_counters(id).into(),
        failure => failure,
    }
}

/// Returns the error of a conversation whose counters contradict each other or its exchanges.
pub(crate) fn damaged_counters(id: &ConversationId) -> StoreError {
    corrupt(id, 0, Damaged::Counters)
}

fn corrupt(id: &ConversationId, seq: u64, damaged: Damaged) -> StoreError {
    StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(seq), source: damaged.into() }
}

/// Damage to the rows of a conversation, done by another program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("the exchange is missing from the log")]
    Missing,
    #[error("the exchange's position is outside the log that the conversation's row describes")]
    Beyond,
    #[error("the record belongs to another exchange")]
    OtherExchange,
    #[error("the counters of the log contradict its exchanges, or each other")]
    Counters,
    #[error("the record belongs to another compaction")]
    OtherCompaction,
    #[error("the compaction's version is out of range")]
    CompactionVersion,
    #[error("the recalled messages cite other positions than their row")]
    OtherRecalled,
    #[error("the labels of a conversation cannot be read")]
    Labels,
    #[error("the row with the epoch of the newest erasure is missing")]
    Epoch,
}

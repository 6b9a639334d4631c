//! Damaged rows: another program changed the file, or the disk returned other data than was written.

use tower_chat_history_core::{ConversationId, Profile, Seq, StoreError};

use crate::error::Failure;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The damage of a row. It quotes numbers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("the exchange is missing from the log")]
    Missing,
    #[error("an exchange is stored at this position, which is outside the log")]
    Outside,
    #[error("the record belongs to another exchange")]
    OtherExchange,
    #[error("the other columns of the row do not match its record")]
    Columns,
    #[error("the conversation's row is damaged: version {version}, first position {first}, length {len}")]
    Conversation { version: i64, first: i64, len: i64 },
    #[error("the conversation's row is damaged: {bytes} bytes")]
    Bytes { bytes: i64 },
    #[error("the conversation's incarnation is damaged: it has {bytes} bytes instead of 16")]
    Incarnation { bytes: usize },
    #[error("the conversation's row is damaged: created at {created}, updated at {updated}, {bytes} bytes")]
    Entry { created: i64, updated: i64, bytes: i64 },
    #[error("the conversation's labels are damaged, or their version, which is {version}")]
    Labels { version: i64 },
    #[error("the compaction's row is damaged: version {version}, start of the window {window_start}")]
    Compaction { version: i64, window_start: i64 },
}

impl Damage {
    /// Returns the failure of the exchange at a position.
    pub(crate) fn at(self, id: &ConversationId, seq: u64) -> Failure {
        corrupt(id, Seq::new(seq), self).into()
    }
}

/// Returns the error for an exchange that cannot be read.
pub(super) fn corrupt(id: &ConversationId, seq: Seq, source: impl Into<BoxError>) -> StoreError {
    StoreError::Corrupt { conversation: id.clone(), seq, source: source.into() }
}

/// Returns the error for a compaction that cannot be read.
pub(super) fn corrupt_compaction(id: &ConversationId, profile: &Profile, source: impl Into<BoxError>) -> StoreError {
    StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source: source.into() }
}

/// Converts a number in the row of the exchange at a position. No such number is negative.
pub(super) fn number<T: TryFrom<i64>>(id: &ConversationId, seq: u64, stored: i64) -> Result<T, Failure> {
    T::try_from(stored).map_err(|_| Damage::Columns.at(id, seq))
}

/// Checks and returns two columns of the row of an exchange: its number of messages, and their size in bytes. Each
/// message has at least one byte, and the body of `octets` bytes contains all of them, so larger numbers are damage.
/// Code that reads the body also compares both numbers with the record.
pub(crate) fn size(
    id: &ConversationId,
    seq: u64,
    (messages, bytes, octets): (i64, i64, i64),
) -> Result<(usize, usize), Failure> {
    if messages > bytes || bytes > octets {
        return Err(Damage::Columns.at(id, seq));
    }
    Ok((number(id, seq, messages)?, number(id, seq, bytes)?))
}

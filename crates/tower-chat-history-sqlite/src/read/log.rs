//! The rows of a conversation, and their damage: another program changed the file, or the disk returned other data than
//! was written.

use std::error::Error;

use rusqlite::{Connection, OptionalExtension, Row, params};
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Exchange, ExchangeId, Incarnation, Profile, Recalled, Recorded,
    Revision, Seq, StoreError, backend::ExchangeRecords,
};

use crate::{error::Failure, stats::Counters};

type BoxError = Box<dyn Error + Send + Sync>;

/// The largest number of exchanges of a conversation: a position, including the next one, has 32 bits.
pub(crate) const MAX_EXCHANGES: u64 = 0xffff_ffff;

/// Returns the place of an exchange: its key in the table, which is ordered by conversation, then by position.
// The cast is exact: a position has 32 bits (`MAX_EXCHANGES`). An id has 31, which the schema checks.
pub(crate) const fn place(conversation: i64, seq: u64) -> i64 {
    (conversation << 32) | (seq as i64)
}

/// Returns the position in a place.
// The cast is exact, because the mask clears the sign.
pub(crate) const fn seq_of(place: i64) -> u64 {
    (place & 0xffff_ffff) as u64
}

/// Selects the exchanges between two places, with the columns that [`Log::decode`] reads.
macro_rules! select_range {
    ($order:literal) => {
        concat!(
            "SELECT place, id, continues, messages, bytes, body, recalled_first, recalled, provenance, media \
             FROM exchange WHERE place BETWEEN ?1 AND ?2 ORDER BY place ",
            $order
        )
    };
}

/// Selects the exchanges between two places, oldest first.
pub(super) const SELECT_RANGE: &str = select_range!("ASC");

/// Selects the exchanges between two places, newest first.
pub(super) const SELECT_BACK: &str = select_range!("DESC");

/// A conversation's row, which was checked: the log is not empty, and its version equals the position of its next
/// exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The position of its next exchange.
    pub(crate) len: u64,
    /// The size of the messages in bytes, as the row had it when it was read. Only a damaged row has a negative number.
    pub(crate) bytes: i64,
}

impl Log {
    pub(crate) fn find(connection: &Connection, id: &ConversationId) -> Result<Option<Self>, Failure> {
        let sql = "SELECT id, incarnation, version, len, first, bytes FROM conversation WHERE key = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([id.as_str()])?;
        rows.next()?.map(|row| Self::from_row(id, row)).transpose()
    }

    /// Returns the number of a conversation's row without checking the rest of the row.
    pub(crate) fn find_number(connection: &Connection, id: &ConversationId) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT id FROM conversation WHERE key = ?1";
        connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0)).optional()
    }

    /// Reads the row of a conversation from its first six columns.
    pub(super) fn from_row(id: &ConversationId, row: &Row<'_>) -> Result<Self, Failure> {
        let incarnation = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        let bytes = incarnation.len();
        let incarnation = <[u8; 16]>::try_from(incarnation).map_err(|_| Damage::Incarnation { bytes }.at(id, 0))?;

        let version: i64 = row.get(2)?;
        let len: i64 = row.get(3)?;
        let first: i64 = row.get(4)?;
        if version != len || first < 0 || first >= len || len.unsigned_abs() > MAX_EXCHANGES {
            return Err(Damage::Conversation { version, first, len }.at(id, 0));
        }

        // None of the three is negative.
        let len = len.unsigned_abs();
        let revision = Revision::new(Incarnation::from_bytes(incarnation), len);
        let revision = revision.beginning_at(Seq::new(first.unsigned_abs()));
        Ok(Self { id: row.get(0)?, revision, len, bytes: row.get(5)? })
    }

    /// Returns the position of the first exchange.
    pub(crate) const fn first(&self) -> u64 {
        self.revision.first().get()
    }

    /// Returns the place of the exchange at a position.
    pub(crate) const fn place(&self, seq: u64) -> i64 {
        place(self.id, seq)
    }

    /// Returns the places of the exchanges from position `from` to position `last`, both included. If the range begins
    /// or ends with the log, it is extended by the conversation's places outside the log. These must be empty, and a
    /// row there is damage.
    pub(super) const fn places(&self, from: u64, last: u64) -> (i64, i64) {
        let from = if from <= self.first() { 0 } else { from };
        let last = if last.saturating_add(1) >= self.len { MAX_EXCHANGES } else { last };
        (self.place(from), self.place(last))
    }

    /// Checks that the row found is the one at a position. The log has no gaps: if the row does not exist, another
    /// program removed it.
    pub(super) fn check(&self, id: &ConversationId, found: Option<&Row<'_>>, expected: u64) -> Result<(), Failure> {
        let found = found.map(|row| row.get(0)).transpose()?.map(seq_of);
        match found {
            Some(found) if found == expected => Ok(()),
            Some(found) if found < self.first() || found >= self.len => Err(Damage::Outside.at(id, found)),
            Some(_) | None => Err(Damage::Missing.at(id, expected)),
        }
    }

    /// Checks that no row was found after the end of the log.
    pub(super) fn check_end(id: &ConversationId, found: Option<&Row<'_>>) -> Result<(), Failure> {
        match found {
            Some(row) => Err(Damage::Outside.at(id, seq_of(row.get(0)?))),
            None => Ok(()),
        }
    }

    /// Returns the position of the exchange with this id, if it is in the log.
    pub(crate) fn position(
        &self,
        connection: &Connection,
        id: &ConversationId,
        exchange: &ExchangeId,
    ) -> Result<Option<Seq>, Failure> {
        let sql = "SELECT place FROM exchange WHERE conversation = ?1 AND id = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let place = statement.query_row(params![self.id, exchange.as_str()], |row| row.get(0)).optional()?;

        let Some(seq) = place.map(seq_of) else { return Ok(None) };
        if seq < self.first() || seq >= self.len {
            return Err(Damage::Outside.at(id, seq));
        }
        Ok(Some(Seq::new(seq)))
    }

    /// Returns `true` if the newest exchange has this id, or if there is no id to compare.
    pub(super) fn ends_with(&self, connection: &Connection, newest: Option<&ExchangeId>) -> rusqlite::Result<bool> {
        let Some(newest) = newest else { return Ok(true) };
        let place = self.place(self.len.saturating_sub(1));

        let sql = "SELECT id = ?2 FROM exchange WHERE place = ?1";
        let same = connection.prepare_cached(sql)?.query_row(params![place, newest.as_str()], |row| row.get(0));
        Ok(same.optional()?.unwrap_or(false))
    }

    /// Returns the compaction of a profile.
    pub(crate) fn compaction(
        &self,
        connection: &Connection,
        id: &ConversationId,
        profile: &Profile,
    ) -> Result<Option<Compaction>, Failure> {
        let sql = "SELECT version, window_start, state, derived FROM compaction \
                   WHERE conversation = ?1 AND profile = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.id, profile.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };

        let version: i64 = row.get(0)?;
        let window_start: i64 = row.get(1)?;
        // Version 0 means that there is no compaction, and a window after the end of the log would be empty.
        if version < 1 || window_start < 0 || window_start.unsigned_abs() >= self.len {
            let source = Damage::Compaction { version, window_start }.into();
            let profile = profile.clone();
            return Err(StoreError::CorruptCompaction { conversation: id.clone(), profile, source }.into());
        }

        let version = CompactionVersion::new(version.unsigned_abs());
        let window_start = Seq::new(window_start.unsigned_abs());
        Ok(Some(Compaction::new(version, window_start, row.get(2)?, row.get(3)?)))
    }

    /// Reads the exchange at a position within the log.
    pub(crate) fn recorded(
        &self,
        connection: &Connection,
        id: &ConversationId,
        seq: u64,
        counters: &Counters,
    ) -> Result<Recorded, Failure> {
        let mut statement = connection.prepare_cached(SELECT_RANGE)?;
        let mut rows = statement.query([self.place(seq); 2])?;
        let row = rows.next()?.ok_or_else(|| Damage::Missing.at(id, seq))?;
        counters.decoded(1);
        Self::decode(id, seq, Columns::of(row)?, row)
    }

    /// Decodes the exchange at a position, in a row of [`SELECT_RANGE`], and checks that the record belongs to the row.
    pub(super) fn decode(id: &ConversationId, seq: u64, columns: Columns, row: &Row<'_>) -> Result<Recorded, Failure> {
        let exchange = Self::decode_records(row).map_err(|error| corrupt(id, Seq::new(seq), error))?;
        if row.get_ref(1)?.as_str().ok() != Some(exchange.id.as_str()) {
            return Err(Damage::OtherExchange.at(id, seq));
        }

        let continues = columns.continues.map(|stored| number(id, seq, stored)).transpose()?.map(Seq::new);
        let recalled_first: Option<i64> = row.get(6)?;
        let messages: usize = number(id, seq, columns.messages)?;
        let bytes: usize = number(id, seq, columns.bytes)?;
        let media: usize = number(id, seq, columns.media)?;
        if continues != exchange.continues
            || messages != exchange.message_count()
            || bytes != exchange.bytes()
            || media != exchange.media_bytes()
            || recalled_first != exchange.recalled.as_ref().and_then(Recalled::least_cited)
        {
            return Err(Damage::Columns.at(id, seq));
        }
        Ok(Recorded::new(Seq::new(seq), exchange))
    }

    fn decode_records(row: &Row<'_>) -> Result<Exchange, BoxError> {
        let records = ExchangeRecords {
            exchange: row.get_ref(5)?.as_str()?,
            recalled: row.get_ref(7)?.as_str_or_null()?,
            provenance: row.get_ref(8)?.as_str_or_null()?,
        };
        Ok(records.decode()?)
    }
}

/// The columns of an exchange that limit a walk.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// The position of the exchange that this one continues, or `None` if it opens a turn.
    pub(super) continues: Option<i64>,
    pub(super) messages: i64,
    /// The size of the messages in bytes.
    pub(super) bytes: i64,
    /// The number of these bytes that are media.
    pub(super) media: i64,
}

impl Columns {
    /// Reads the columns from a row of [`SELECT_RANGE`].
    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { continues: row.get(2)?, messages: row.get(3)?, bytes: row.get(4)?, media: row.get(9)? })
    }

    /// Checks and returns the number of messages, their [size](size) and their media, for a body of `octets` bytes.
    pub(super) fn sizes(self, id: &ConversationId, seq: u64, octets: i64) -> Result<[usize; 3], Failure> {
        let (messages, bytes) = size(id, seq, (self.messages, self.bytes, octets))?;
        if self.media > self.bytes {
            return Err(Damage::Columns.at(id, seq));
        }
        Ok([messages, bytes, number(id, seq, self.media)?])
    }
}

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
fn corrupt(id: &ConversationId, seq: Seq, source: impl Into<BoxError>) -> StoreError {
    StoreError::Corrupt { conversation: id.clone(), seq, source: source.into() }
}

/// Converts a number in the row of the exchange at a position. No such number is negative.
pub(super) fn number<T: TryFrom<i64>>(id: &ConversationId, seq: u64, stored: i64) -> Result<T, Failure> {
    T::try_from(stored).map_err(|_| Damage::Columns.at(id, seq))
}

/// Checks and returns two columns of the row of an exchange: its number of messages, and their size in bytes. Each
/// message has at least one byte, and the body of `octets` bytes contains all of them, so larger numbers are damage.
/// Code that reads the body also compares the numbers with the record.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_order_by_conversation_and_position() {
        assert!(place(1, MAX_EXCHANGES) < place(2, 0));
        assert!(place(i64::from(i32::MAX), MAX_EXCHANGES) > 0);
        assert_eq!(seq_of(place(7, MAX_EXCHANGES)), MAX_EXCHANGES);
        assert_eq!(seq_of(place(7, 3)), 3);
    }
}

//! The rows of a conversation.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Exchange, ExchangeId, Incarnation, Profile, RecordError,
    Recorded, Revision, Seq, StoreError,
};

use crate::error::Failure;

/// The most exchanges of a conversation: positions, and the one after the last, have 32 bits.
pub(crate) const LONGEST_LOG: u64 = 0xffff_ffff;

/// Where an exchange lies in its table: by conversation, then by position.
#[allow(clippy::cast_possible_wrap)] // Positions have 32 bits (`LONGEST_LOG`), and ids 31 (the schema checks it).
const fn place(conversation: i64, seq: u64) -> i64 {
    (conversation << 32) | (seq as i64)
}

/// The position within a place.
#[allow(clippy::cast_sign_loss)] // The mask leaves no sign.
pub(super) const fn seq_of(place: i64) -> u64 {
    (place & 0xffff_ffff) as u64
}

/// A count as the schema stores it. It has never been negative.
pub(crate) fn count<T: TryFrom<i64> + Default>(stored: i64) -> T {
    T::try_from(stored).unwrap_or_default()
}

/// A conversation's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The position of its next exchange.
    pub(crate) len: u64,
}

impl Log {
    pub(crate) fn find(connection: &Connection, id: &ConversationId) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT id, incarnation, version, len, first FROM conversation WHERE key = ?1";
        connection.prepare_cached(sql)?.query_row([id.as_str()], Self::from_row).optional()
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let incarnation = Incarnation::from_bytes(row.get(1)?);
        let revision = Revision::new(incarnation, count(row.get(2)?)).beginning_at(Seq::new(count(row.get(4)?)));
        Ok(Self { id: row.get(0)?, revision, len: count(row.get(3)?) })
    }

    /// The position of its first exchange.
    pub(crate) const fn first(&self) -> u64 {
        self.revision.first().get()
    }

    /// The position within a place.
    pub(crate) const fn seq(place: i64) -> Seq {
        Seq::new(seq_of(place))
    }

    /// The place of the exchange at a position.
    pub(crate) const fn place(&self, seq: u64) -> i64 {
        place(self.id, seq)
    }

    /// Where the exchange of that id stands, if it is in the log.
    pub(crate) fn position(&self, connection: &Connection, exchange: &ExchangeId) -> rusqlite::Result<Option<Seq>> {
        let sql = "SELECT place FROM exchange WHERE conversation = ?1 AND id = ?2";
        let place = connection
            .prepare_cached(sql)?
            .query_row(params![self.id, exchange.as_str()], |row| row.get(0))
            .optional()?;
        Ok(place.map(|place| Seq::new(seq_of(place))))
    }

    /// Whether that exchange is the newest one; `None` is any.
    pub(super) fn ends_with(&self, connection: &Connection, newest: Option<&ExchangeId>) -> rusqlite::Result<bool> {
        let Some(newest) = newest else { return Ok(true) };
        let sql = "SELECT id = ?2 FROM exchange WHERE place = ?1";
        let place = self.place(self.len.saturating_sub(1));
        let same = connection.prepare_cached(sql)?.query_row(params![place, newest.as_str()], |row| row.get(0));
        Ok(same.optional()?.unwrap_or(false))
    }

    pub(crate) fn compaction(
        &self,
        connection: &Connection,
        profile: &Profile,
    ) -> rusqlite::Result<Option<StoredCompaction>> {
        let sql = "SELECT version, body FROM compaction WHERE conversation = ?1 AND profile = ?2";
        connection
            .prepare_cached(sql)?
            .query_row(params![self.id, profile.as_str()], |row| {
                Ok(StoredCompaction { version: CompactionVersion::new(count(row.get(0)?)), body: row.get(1)? })
            })
            .optional()
    }

    /// The compactions of all profiles, `None` for one that cannot be read.
    pub(crate) fn compactions(&self, connection: &Connection) -> rusqlite::Result<Vec<(String, Option<Compaction>)>> {
        let sql = "SELECT profile, version, body FROM compaction WHERE conversation = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([self.id], |row| {
            let version = CompactionVersion::new(count(row.get(1)?));
            // Text that is not UTF-8 is no cut either.
            let cut = row.get_ref(2)?.as_str().ok().and_then(|body| Cut::decode(body).ok());
            Ok((row.get(0)?, cut.map(|cut| Compaction::new(version, cut))))
        })?;
        rows.collect()
    }

    /// The exchange in a row whose column `body` has its text.
    pub(super) fn decode(id: &ConversationId, seq: u64, row: &Row<'_>, body: usize) -> Result<Recorded, Failure> {
        let seq = Seq::new(seq);
        let corrupt = |source| StoreError::Corrupt { conversation: id.clone(), seq, source };
        let text = row.get_ref(body)?.as_str().map_err(|error| corrupt(error.into()))?;
        let exchange = Exchange::decode(text).map_err(|error| corrupt(error.into()))?;
        Ok(Recorded::new(seq, exchange))
    }

    /// The failure of a log that lacks the exchange at a position.
    pub(super) fn missing(id: &ConversationId, seq: u64) -> Failure {
        let (conversation, seq) = (id.clone(), Seq::new(seq));
        StoreError::Corrupt { conversation, seq, source: Box::new(Missing) }.into()
    }
}

/// A compaction's row, not parsed yet: most callers want no more than its version.
#[derive(Debug)]
pub(crate) struct StoredCompaction {
    pub(crate) version: CompactionVersion,
    body: String,
}

impl StoredCompaction {
    pub(crate) fn parse(&self, id: &ConversationId, profile: &Profile) -> Result<Compaction, StoreError> {
        let (conversation, profile) = (id.clone(), profile.clone());
        let corrupt =
            |source: RecordError| StoreError::CorruptCompaction { conversation, profile, source: source.into() };
        Cut::decode(&self.body).map(|cut| Compaction::new(self.version, cut)).map_err(corrupt)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the exchange is missing from the log")]
struct Missing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_order_by_conversation_and_position() {
        assert!(place(1, LONGEST_LOG) < place(2, 0));
        assert!(place(i64::from(i32::MAX), LONGEST_LOG) > 0);
        assert_eq!(seq_of(place(7, LONGEST_LOG)), LONGEST_LOG);
        assert_eq!(seq_of(place(7, 3)), 3);
    }
}

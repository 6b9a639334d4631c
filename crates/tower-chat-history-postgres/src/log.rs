//! The rows of a conversation.

use tokio::runtime::Handle;
use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Exchange, Incarnation, Profile, Recorded, Revision, Seq,
    StoreError,
};
use uuid::Uuid;

use crate::PostgresError;

/// From so many bytes on, records are parsed on a thread for blocking work: it takes milliseconds.
const LARGE: usize = 256 << 10;

/// A number as PostgreSQL stores it. No stored one comes near the largest.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as it was stored. It has never been negative.
pub(crate) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

pub(crate) const fn uuid(incarnation: Incarnation) -> Uuid {
    Uuid::from_bytes(*incarnation.as_bytes())
}

pub(crate) fn revision(incarnation: Uuid, version: i64, first: i64) -> Revision {
    Revision::new(Incarnation::from_bytes(*incarnation.as_bytes()), count(version)).beginning_at(Seq::new(count(first)))
}

/// A conversation's row, which is locked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The position of its next exchange.
    pub(crate) len: u64,
}

impl Log {
    pub(crate) fn from_row(row: &Row) -> Result<Self, PostgresError> {
        let revision = revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok(Self { id: row.try_get(0)?, revision, len: count(row.try_get(4)?) })
    }

    pub(crate) const fn first(&self) -> u64 {
        self.revision.first().get()
    }
}

/// The exchanges from one position to before another one, from rows of position and body, in any order.
pub(crate) async fn exchanges(
    id: &ConversationId,
    mut rows: Vec<Row>,
    from: u64,
    to: u64,
) -> Result<Vec<Recorded>, StoreError> {
    rows.sort_by_key(|row| row.try_get::<_, i64>(0).unwrap_or_default());
    let large = rows.iter().map(|row| row.raw_size_bytes()).sum::<usize>() > LARGE;
    // A call may be finished on a thread that has no runtime.
    let Some(runtime) = Handle::try_current().ok().filter(|_| large) else {
        return decode(id, &rows, from, to);
    };
    let conversation = id.clone();
    let decoding = runtime.spawn_blocking(move || decode(&conversation, &rows, from, to));
    // It ends in another way only when the runtime does.
    decoding.await.unwrap_or_else(|_| Err(StoreError::unavailable(PostgresError::NoRuntime)))
}

fn decode(id: &ConversationId, rows: &[Row], from: u64, to: u64) -> Result<Vec<Recorded>, StoreError> {
    let mut exchanges = Vec::with_capacity(rows.len());
    let mut rows = rows.iter();
    for expected in from..to {
        let seq = Seq::new(expected);
        let corrupt = |source| StoreError::Corrupt { conversation: id.clone(), seq, source };
        // The log has no gaps: a row that is not there was taken out by somebody else.
        let row = rows.next().filter(|row| row.try_get::<_, i64>(0).is_ok_and(|seq| count(seq) == expected));
        let row = row.ok_or_else(|| corrupt(Box::new(Missing)))?;
        let body: &str = row.try_get(1).map_err(|error| corrupt(Box::new(PostgresError::from(error))))?;
        let exchange = Exchange::decode(body).map_err(|error| corrupt(error.into()))?;
        exchanges.push(Recorded::new(seq, exchange));
    }
    Ok(exchanges)
}

/// The compaction of a row.
pub(crate) fn compaction(
    id: &ConversationId,
    profile: &Profile,
    version: i64,
    body: &str,
) -> Result<Compaction, StoreError> {
    let cut = Cut::decode(body).map_err(|error| StoreError::CorruptCompaction {
        conversation: id.clone(),
        profile: profile.clone(),
        source: error.into(),
    })?;
    Ok(Compaction::new(CompactionVersion::new(count(version)), cut))
}

#[derive(Debug, thiserror::Error)]
#[error("the exchange is missing from the log")]
struct Missing;

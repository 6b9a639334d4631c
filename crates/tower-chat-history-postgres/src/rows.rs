//! The rows of a conversation.

use tokio::runtime::Handle;
use tokio_postgres::Row;
use tower_chat_history_core::{
    Compaction, CompactionVersion, ConversationId, Cut, Exchange, Incarnation, Profile, Recorded, Revision, Seq,
    StoreError,
};
use uuid::Uuid;

use crate::error::{Failure, PostgresError};

/// From so many bytes on, records are parsed on a thread for blocking work: it takes milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 256 << 10;

/// A number as PostgreSQL stores it. No stored one comes near the largest.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as it was stored: one that is not negative, unless somebody else wrote it.
pub(crate) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

pub(crate) const fn uuid(incarnation: Incarnation) -> Uuid {
    Uuid::from_bytes(*incarnation.as_bytes())
}

pub(crate) fn revision(incarnation: Uuid, version: i64, first: i64) -> Revision {
    Revision::new(Incarnation::from_bytes(*incarnation.as_bytes()), count(version)).beginning_at(Seq::new(count(first)))
}

/// The version of a stored compaction, if it is one: it is counted from 1, and has a next one.
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
    /// No sum of this store comes near it. What is less can be added to.
    const MAX_SUM: i64 = 1 << 62;

    /// Checks that the numbers do not contradict each other, as the functions that write do.
    ///
    /// A log is never empty, and begins with an opening. Each of its changes added an exchange, which counts as one
    /// message at least.
    fn check(self, id: &ConversationId) -> Result<(), StoreError> {
        let Self { version, first, len, opening, messages, bytes } = self;
        let in_order = 0 <= first && first <= opening && opening < len && len == version && len <= messages;
        if in_order && messages < Self::MAX_SUM && (0..Self::MAX_SUM).contains(&bytes) {
            return Ok(());
        }
        Err(corrupt(id, count(first), Damaged::Counters))
    }
}

/// A conversation's row, which is locked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// The position of its next exchange.
    pub(crate) len: u64,
    /// The sums of messages and bytes of all exchanges.
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

/// What a function that reads says of the conversation: its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    /// The position of its next exchange.
    pub(crate) len: u64,
    /// That of the newest exchange that opens a turn.
    opening: u64,
    /// The sums of messages and bytes of all exchanges.
    sums: [i64; 2],
}

/// Where the rows of functions that read have what both functions return. The first five are those of an exchange's
/// row.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const ID: usize = 1;
    pub(super) const BODY: usize = 2;
    pub(super) const MESSAGES: usize = 3;
    pub(super) const BYTES: usize = 4;
    pub(super) const INCARNATION: usize = 5;
    pub(super) const VERSION: usize = 6;
    pub(super) const FIRST: usize = 7;
    pub(super) const LEN: usize = 8;
    pub(super) const OPENING: usize = 9;
}

impl Head {
    /// Reads a conversation's row, of which some numbers say the same.
    pub(crate) fn from_row(id: &ConversationId, row: &Row) -> Result<Self, Failure> {
        let counters = Counters {
            version: row.try_get(column::VERSION)?,
            first: row.try_get(column::FIRST)?,
            len: row.try_get(column::LEN)?,
            opening: row.try_get(column::OPENING)?,
            messages: row.try_get(column::MESSAGES)?,
            bytes: row.try_get(column::BYTES)?,
        };
        counters.check(id)?;
        let Counters { version, first, len, opening, messages, bytes } = counters;
        let revision = revision(row.try_get(column::INCARNATION)?, version, first);
        Ok(Self { revision, len: count(len), opening: count(opening), sums: [messages, bytes] })
    }

    /// Is that one of the log's positions?
    pub(crate) fn has(&self, seq: i64) -> bool {
        seq >= 0 && (self.revision.first().get()..self.len).contains(&count(seq))
    }

    /// Checks what the conversation's row says of the end of its log by the exchanges that stand there.
    pub(crate) fn check_window(&self, id: &ConversationId, exchanges: &[Recorded]) -> Result<(), StoreError> {
        let newest = exchanges.iter().rev().find(|recorded| recorded.exchange.opens_turn());
        match newest {
            Some(newest) if newest.seq.get() == self.opening => Ok(()),
            _ => Err(corrupt(id, self.opening, Damaged::Counters)),
        }
    }
}

/// The exchanges from one position to before another one, from their rows in any order.
pub(crate) async fn exchanges(
    id: &ConversationId,
    head: Head,
    mut rows: Vec<Row>,
    from: u64,
    to: u64,
) -> Result<Vec<Recorded>, StoreError> {
    rows.sort_by_key(|row| row.try_get::<_, i64>(column::SEQ).unwrap_or_default());
    let large = rows.iter().map(|row| row.raw_size_bytes()).sum::<usize>() > BLOCKING_THRESHOLD_BYTES;
    // A call may be finished on a thread that has no runtime.
    let Some(runtime) = Handle::try_current().ok().filter(|_| large) else {
        return decode(id, head, &rows, from, to);
    };
    let conversation = id.clone();
    let decoding = runtime.spawn_blocking(move || decode(&conversation, head, &rows, from, to));
    // It ends in another way only when the runtime does.
    decoding.await.unwrap_or_else(|_| Err(StoreError::unavailable(PostgresError::NoRuntime)))
}

fn decode(id: &ConversationId, head: Head, rows: &[Row], from: u64, to: u64) -> Result<Vec<Recorded>, StoreError> {
    let mut exchanges = Vec::with_capacity(rows.len());
    let mut rows = rows.iter();
    let mut before = (from == 0).then_some([0, 0]);
    for expected in from..to {
        let corrupt = |source| StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(expected), source };
        let unreadable = |error| corrupt(Box::new(PostgresError::from(error)));
        // The log has no gaps: a row that is not there was taken out by somebody else.
        let row = rows.next().filter(|row| row.try_get::<_, i64>(column::SEQ).is_ok_and(|seq| count(seq) == expected));
        let row = row.ok_or_else(|| corrupt(Damaged::Missing.into()))?;
        let exchange = Exchange::decode(row.try_get(column::BODY).map_err(unreadable)?);
        let exchange = exchange.map_err(|error| corrupt(error.into()))?;
        if row.try_get::<_, &str>(column::ID).map_err(unreadable)? != exchange.id.as_str() {
            return Err(corrupt(Damaged::OtherExchange.into()));
        }
        let sums = [
            row.try_get::<_, i64>(column::MESSAGES).map_err(unreadable)?,
            row.try_get(column::BYTES).map_err(unreadable)?,
        ];
        let own = [stored(exchange.counted_messages() as u64), stored(exchange.bytes() as u64)];
        if before.is_some_and(|before| sums != sum(before, own)) || expected + 1 == head.len && sums != head.sums {
            return Err(corrupt(Damaged::Counters.into()));
        }
        before = Some(sums);
        exchanges.push(Recorded::new(Seq::new(expected), exchange));
    }
    // The exchanges around the log were asked for too.
    if let Some(row) = rows.next() {
        let seq = row.try_get::<_, i64>(column::SEQ).map_or(to, count);
        return Err(corrupt(id, seq, Damaged::Beyond));
    }
    Ok(exchanges)
}

fn sum(before: [i64; 2], own: [i64; 2]) -> [i64; 2] {
    [before[0].saturating_add(own[0]), before[1].saturating_add(own[1])]
}

/// The compaction of a row, whose positions are those that its body says. Its window has an exchange of a log of that
/// length.
pub(crate) fn compaction(
    id: &ConversationId,
    len: u64,
    profile: &Profile,
    version: i64,
    positions: &[i64],
    body: &str,
) -> Result<Compaction, StoreError> {
    let corrupt = |source| StoreError::CorruptCompaction { conversation: id.clone(), profile: profile.clone(), source };
    let cut = Cut::decode(body).map_err(|error| corrupt(error.into()))?;
    let version = compaction_version(version).ok_or_else(|| corrupt(Damaged::CompactionVersion.into()))?;
    if positions != positions_of(&cut) {
        return Err(corrupt(Damaged::OtherCompaction.into()));
    }
    if cut.window_start.get() >= len {
        return Err(corrupt(Damaged::WindowBeyondLog.into()));
    }
    Ok(Compaction::new(version, cut))
}

/// The positions of a cut, in the order of the columns that they have.
pub(crate) fn positions_of(cut: &Cut) -> [i64; 4] {
    [cut.window_start, cut.rounds_start, cut.cleared_before, cut.covers_to()].map(|seq| stored(seq.get()))
}

/// A failure of a statement that adds and subtracts counters. One that cannot do so has found some that no log has.
pub(crate) fn or_damaged_counters(id: &ConversationId, failure: Failure) -> Failure {
    match failure {
        Failure::Postgres(error) if error.is_out_of_range() => damaged_counters(id).into(),
        failure => failure,
    }
}

/// The error of a conversation whose counters contradict each other, or its exchanges.
pub(crate) fn damaged_counters(id: &ConversationId) -> StoreError {
    corrupt(id, 0, Damaged::Counters)
}

fn corrupt(id: &ConversationId, seq: u64, damaged: Damaged) -> StoreError {
    StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(seq), source: damaged.into() }
}

/// What somebody else did to the rows of a conversation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("the exchange is missing from the log")]
    Missing,
    #[error("the exchange stands outside of what the conversation's row says is the log")]
    Beyond,
    #[error("the record is that of another exchange")]
    OtherExchange,
    #[error("the counters of the log contradict its exchanges, or each other")]
    Counters,
    #[error("the record is that of another compaction")]
    OtherCompaction,
    #[error("the number of the compaction is none that one can have")]
    CompactionVersion,
    #[error("the window starts beyond the log")]
    WindowBeyondLog,
}

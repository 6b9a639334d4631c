//! Decoding the rows of exchanges.

use std::ops::Range;

use tokio::runtime::Handle;
use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, Recalled, Recorded, Seq, StoreError, backend::ExchangeRecords};

use super::{Damaged, Head, corrupt, count, stored};
use crate::error::PostgresError;

/// Records of this total size or more, in bytes, are parsed on a blocking thread, because that takes milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 256 << 10;

/// The columns of an exchange, with which the results of the functions that read begin.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const ID: usize = 1;
    pub(super) const BODY: usize = 2;
    pub(super) const MESSAGES: usize = 3;
    pub(super) const BYTES: usize = 4;
    pub(super) const RECALLED_FIRST: usize = 5;
    pub(super) const RECALLED: usize = 6;
    pub(super) const PROVENANCE: usize = 7;
}

/// Decodes the exchanges at these positions of the log. The rows may be in any order.
pub(crate) async fn exchanges(
    id: &ConversationId,
    head: Head,
    mut rows: Vec<Row>,
    positions: Range<u64>,
) -> Result<Vec<Recorded>, StoreError> {
    rows.sort_by_key(|row| row.try_get::<_, i64>(column::SEQ).unwrap_or_default());
    let large = rows.iter().map(|row| row.raw_size_bytes()).sum::<usize>() > BLOCKING_THRESHOLD_BYTES;
    // A call may be finished on a thread that has no runtime.
    let Some(runtime) = Handle::try_current().ok().filter(|_| large) else {
        return decode(id, head, &rows, positions);
    };
    let conversation = id.clone();
    let decoding = runtime.spawn_blocking(move || decode(&conversation, head, &rows, positions));
    // This fails only if the runtime shuts down.
    decoding.await.unwrap_or_else(|_| Err(StoreError::unavailable(PostgresError::NoRuntime)))
}

fn decode(id: &ConversationId, head: Head, rows: &[Row], positions: Range<u64>) -> Result<Vec<Recorded>, StoreError> {
    let mut exchanges = Vec::with_capacity(rows.len());
    let mut rows = rows.iter();
    // The sums up to a position are known after the exchange before it, and at the beginning of a whole log.
    let (mut next, mut before) = (0, [0, 0]);
    for expected in positions {
        let corrupt = |source| StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(expected), source };
        let unreadable = |error| corrupt(Box::new(PostgresError::from(error)));
        // The log has no gaps: another program removed the missing row.
        let row = rows.next().filter(|row| row.try_get::<_, i64>(column::SEQ).is_ok_and(|seq| count(seq) == expected));
        let row = row.ok_or_else(|| corrupt(Damaged::Missing.into()))?;
        let records = ExchangeRecords {
            exchange: row.try_get(column::BODY).map_err(unreadable)?,
            recalled: row.try_get(column::RECALLED).map_err(unreadable)?,
            provenance: row.try_get(column::PROVENANCE).map_err(unreadable)?,
        };
        let exchange = records.decode().map_err(|error| corrupt(error.into()))?;
        if row.try_get::<_, &str>(column::ID).map_err(unreadable)? != exchange.id.as_str() {
            return Err(corrupt(Damaged::OtherExchange.into()));
        }
        // An erasure compares the column.
        let cited: Option<i64> = row.try_get(column::RECALLED_FIRST).map_err(unreadable)?;
        if cited != exchange.recalled.as_ref().and_then(Recalled::least_cited) {
            return Err(corrupt(Damaged::OtherRecalled.into()));
        }
        let sums = [
            row.try_get::<_, i64>(column::MESSAGES).map_err(unreadable)?,
            row.try_get(column::BYTES).map_err(unreadable)?,
        ];
        let own = [stored(exchange.counted_messages() as u64), stored(exchange.bytes() as u64)];
        if expected == next && sums != sum(before, own) || expected + 1 == head.len && sums != head.sums {
            return Err(corrupt(Damaged::Counters.into()));
        }
        (next, before) = (expected + 1, sums);
        exchanges.push(Recorded::new(Seq::new(expected), exchange));
    }
    // The query also returns rows at the positions before and after the log. There must be none.
    if let Some(row) = rows.next() {
        let seq = row.try_get::<_, i64>(column::SEQ).map_or(head.len, count);
        return Err(corrupt(id, seq, Damaged::Beyond));
    }
    Ok(exchanges)
}

fn sum(before: [i64; 2], own: [i64; 2]) -> [i64; 2] {
    [before[0].saturating_add(own[0]), before[1].saturating_add(own[1])]
}

//! Counting the rows of a conversation.

use rusqlite::Connection;
use tower_chat_history_core::Removed;

use super::log::{MAX_EXCHANGES, place};
use crate::error::Failure;

/// Counts what is stored under the number of a conversation. It reads no bodies. Rows that are damaged count too.
pub(crate) fn conversation(connection: &Connection, number: i64) -> Result<Removed, Failure> {
    let mut counted = Removed::default();
    counted.conversations = 1;
    (counted.exchanges, counted.bytes) = exchanges(connection, number, 0, MAX_EXCHANGES)?;
    counted.exchange_ids = counted.exchanges;
    let sql = "SELECT labels IS NOT NULL FROM conversation WHERE id = ?1";
    counted.labels = connection.prepare_cached(sql)?.query_row([number], |row| row.get(0).map(unsigned))?;
    (counted.compactions, counted.summaries) = compactions(connection, number)?;
    Ok(counted)
}

/// Returns the number of exchanges from one position to another, both included, and their size in bytes of message
/// JSON.
pub(crate) fn exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> rusqlite::Result<(u64, u64)> {
    // `total` returns a float, so that the columns of damaged rows cannot overflow. Sums that occur are exact.
    let sql = "SELECT count(*), CAST(total(bytes) AS INTEGER) FROM exchange WHERE place BETWEEN ?1 AND ?2";
    let places = [place(number, first), place(number, last)];
    connection.prepare_cached(sql)?.query_row(places, |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// Returns the number of compactions, and of those with text that was made from messages.
fn compactions(connection: &Connection, number: i64) -> rusqlite::Result<(u64, u64)> {
    let sql = "SELECT count(*), count(derived) FROM compaction WHERE conversation = ?1";
    connection.prepare_cached(sql)?.query_row([number], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// Converts a count or a sum. Only the columns of damaged rows are negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

//! Counting the rows of a conversation.

use rusqlite::Connection;
use tower_chat_history_core::{Compaction, CompactionVersion, Removed};

use super::log::{MAX_EXCHANGES, place};
use crate::error::Failure;

/// Counts what is stored under the number of a conversation. It reads no bodies, except those of compactions. Rows that
/// are damaged count too.
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

/// Returns the number of compactions, and of those with a summary. One that cannot be read might have a summary.
fn compactions(connection: &Connection, number: i64) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection.prepare_cached("SELECT body FROM compaction WHERE conversation = ?1")?;
    let mut rows = statement.query([number])?;
    let (mut compactions, mut summaries) = (0, 0);
    while let Some(row) = rows.next()? {
        let stored = row.get_ref(0)?.as_str().ok();
        // The version is not a part of the body.
        let compaction = stored.and_then(|body| Compaction::decode(CompactionVersion::NONE, body).ok());
        let has_summary = compaction.is_none_or(|compaction| {
            let replaced = compaction.replaced.is_some_and(|cut| cut.summary.is_some());
            compaction.cut.summary.is_some() || replaced
        });
        compactions += 1;
        summaries += u64::from(has_summary);
    }
    Ok((compactions, summaries))
}

/// Converts a count or a sum. Only the columns of damaged rows are negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

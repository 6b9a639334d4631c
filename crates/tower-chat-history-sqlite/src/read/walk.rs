//! Walks over the conversations under a prefix, and counts of their rows.

use rusqlite::{Connection, OptionalExtension};
use tower_chat_history_core::{Cursor, Prefix, Removed, backend::KeyRange};

use super::log::{MAX_EXCHANGES, place};
use crate::{error::Failure, job::Request, stats::Counters};

/// The largest number of rows that a step of a walk counts or removes, and their largest size in bytes. A step with a
/// single conversation may exceed both.
const MAX_ROWS: u64 = 1_000;
const MAX_BYTES: u64 = 4 << 20;

/// A bounded number of conversations under a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) under: Prefix,
    pub(crate) after: Option<Cursor>,
    /// The largest number of conversations. 0 counts as 1.
    pub(crate) limit: usize,
}

impl Step {
    /// Calls `each` with the number of one conversation after the other, and adds what it counts. Also returns the
    /// place at which the next step begins, or `None` if this was the last one.
    ///
    /// The step ends at its limit, or when the counted rows have the maximum number or size: a thread of the store has
    /// other callers too. It has at least one conversation if there is one.
    pub(crate) fn walk(
        &self,
        connection: &Connection,
        each: impl Fn(i64) -> Result<Removed, Failure>,
    ) -> Result<(Removed, Option<Cursor>), Failure> {
        let mut keys = KeyRange::new(&self.under, self.after.as_ref());
        let mut sum = Removed::default();
        let mut last = None;
        let mut conversations = 0;
        let mut rows = 0_u64;

        while let Some((number, key)) = next(&mut keys, connection)? {
            let is_full = conversations >= self.limit.max(1) || rows >= MAX_ROWS || sum.bytes >= MAX_BYTES;
            if is_full && let Some(last) = last {
                return Ok((sum, Some(Cursor::after(last))));
            }

            let counted = each(number)?;
            conversations += 1;
            rows = rows.saturating_add(counted.conversations + counted.exchanges + counted.compactions);
            sum += counted;
            // A key that is not the id of a conversation was written by another program. No step ends there.
            last = key.parse().ok().or(last);
        }
        Ok((sum, None))
    }
}

/// Returns the number and the key of the next conversation, and removes it from the keys.
fn next(keys: &mut KeyRange, connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    if let Some(exact) = keys.exact.take() {
        let sql = "SELECT id, key FROM conversation WHERE key = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_row([exact.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
        if let Some(found) = found.optional()? {
            return Ok(Some(found));
        }
    }

    let sql = "SELECT id, key FROM conversation WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([&keys.after, &keys.before], |row| Ok((row.get(0)?, row.get(1)?)));
    let found: Option<(i64, String)> = found.optional()?;
    if let Some((_, key)) = &found {
        keys.continue_after(key);
    }
    Ok(found)
}

/// Counts the conversations of one step.
pub(crate) struct CountStep(pub(crate) Step);

impl Request for CountStep {
    type Answer = (Removed, Option<Cursor>);

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Self::Answer, Failure> {
        self.0.walk(connection, |number| count_conversation(connection, number))
    }
}

/// Counts what is stored under the number of a conversation. It reads no bodies. Rows that are damaged count too.
pub(crate) fn count_conversation(connection: &Connection, number: i64) -> Result<Removed, Failure> {
    let mut counted = Removed::default();
    counted.conversations = 1;

    (counted.exchanges, counted.bytes) = count_exchanges(connection, number, 0, MAX_EXCHANGES)?;
    counted.exchange_ids = counted.exchanges;

    let sql = "SELECT labels IS NOT NULL FROM conversation WHERE id = ?1";
    counted.labels = connection.prepare_cached(sql)?.query_row([number], |row| row.get(0).map(unsigned))?;

    (counted.compactions, counted.summaries) = count_compactions(connection, number)?;
    Ok(counted)
}

/// Returns the number of exchanges from one position to another, both included, and their size in bytes of message
/// JSON.
pub(crate) fn count_exchanges(
    connection: &Connection,
    number: i64,
    first: u64,
    last: u64,
) -> rusqlite::Result<(u64, u64)> {
    // `total` returns a float, so that the columns of damaged rows cannot overflow. Sums that occur are exact.
    let sql = "SELECT count(*), CAST(total(bytes) AS INTEGER) FROM exchange WHERE place BETWEEN ?1 AND ?2";
    let places = [place(number, first), place(number, last)];
    connection.prepare_cached(sql)?.query_row(places, |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// Returns the number of compactions, and of those with text that was made from messages.
fn count_compactions(connection: &Connection, number: i64) -> rusqlite::Result<(u64, u64)> {
    let sql = "SELECT count(*), count(derived) FROM compaction WHERE conversation = ?1";
    connection.prepare_cached(sql)?.query_row([number], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// Converts a count or a sum. Only the columns of damaged rows are negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

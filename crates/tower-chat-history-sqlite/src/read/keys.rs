//! Walks over the conversations under a prefix.

use rusqlite::{Connection, OptionalExtension};
use tower_chat_history_core::{Cursor, Prefix, Removed, backend::KeyRange};

use crate::error::Failure;

/// The largest number of rows that a step of a walk counts or removes, and their largest size in bytes. A step with a
/// single conversation may exceed both.
const MAX_ROWS: u64 = 1_000;
const MAX_BYTES: u64 = 4 << 20;

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
        let (mut sum, mut last) = (Removed::default(), None);
        let (mut conversations, mut rows, mut bytes) = (0, 0_u64, 0_u64);
        while let Some((number, key)) = next(&mut keys, connection)? {
            let is_full = conversations >= self.limit.max(1) || rows >= MAX_ROWS || bytes >= MAX_BYTES;
            if is_full && let Some(last) = last {
                return Ok((sum, Some(Cursor::after(last))));
            }
            let counted = each(number)?;
            conversations += 1;
            rows = rows.saturating_add(counted.conversations + counted.exchanges + counted.compactions);
            bytes = bytes.saturating_add(counted.bytes);
            sum += counted;
            // A key that is not the id of a conversation was written by another program. No step ends there.
            last = key.parse().ok().or(last);
        }
        Ok((sum, None))
    }
}

//! The conversations under a prefix.

use rusqlite::{Connection, OptionalExtension};
use tower_chat_history_core::{Cursor, Prefix, Removed};

use super::tally::Tally;
use crate::error::Failure;

/// The largest number of rows that a step of a walk counts or removes, and their largest size in bytes. A step with a
/// single conversation may exceed both.
const MAX_ROWS: u64 = 1_000;
const MAX_BYTES: u64 = 4 << 20;

/// A text after all keys, because the text form of an id is ASCII.
const AFTER_ALL_KEYS: &str = "\u{10ffff}";

/// The keys of the conversations under a prefix, after a cursor: at most one key, and then a range. Together, they are
/// the keys in the order of a listing.
#[derive(Debug)]
pub(super) struct Keys {
    /// The key with exactly the parts of the prefix, unless the cursor is at or after it.
    pub(super) exact: Option<String>,
    /// The ends of the range, both excluded.
    pub(super) after: String,
    pub(super) before: String,
}

impl Keys {
    pub(super) fn new(under: &Prefix, cursor: Option<&Cursor>) -> Self {
        let cursor = cursor.map_or("", |cursor| cursor.last().as_str());
        let exact = under.as_id().filter(|id| id.as_str() > cursor).map(|id| id.as_str().to_owned());
        let (first, before) = under.longer_ids();
        let after = if cursor > first.as_str() { cursor.to_owned() } else { first };
        Self { exact, after, before: before.unwrap_or_else(|| AFTER_ALL_KEYS.to_owned()) }
    }

    /// Returns the number and the key of the next conversation, and removes it from these keys.
    fn next(&mut self, connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
        if let Some(exact) = self.exact.take() {
            let sql = "SELECT id, key FROM conversation WHERE key = ?1";
            let found = connection.prepare_cached(sql)?.query_row([exact], |row| Ok((row.get(0)?, row.get(1)?)));
            if let Some(found) = found.optional()? {
                return Ok(Some(found));
            }
        }
        let sql = "SELECT id, key FROM conversation WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_row([&self.after, &self.before], |row| Ok((row.get(0)?, row.get(1)?)));
        let found: Option<(i64, String)> = found.optional()?;
        if let Some((_, key)) = &found {
            self.after.clone_from(key);
        }
        Ok(found)
    }
}

/// A bounded number of conversations under a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) under: Prefix,
    pub(crate) after: Option<Cursor>,
    /// The largest number of conversations.
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
        each: impl Fn(i64) -> Result<Tally, Failure>,
    ) -> Result<(Removed, Option<Cursor>), Failure> {
        if self.limit == 0 {
            return Ok((Removed::default(), self.after.clone()));
        }
        let mut keys = Keys::new(&self.under, self.after.as_ref());
        let (mut sum, mut last) = (Removed::default(), None);
        let (mut conversations, mut rows, mut bytes) = (0, 0_u64, 0_u64);
        while let Some((number, key)) = keys.next(connection)? {
            let is_full = conversations >= self.limit || rows >= MAX_ROWS || bytes >= MAX_BYTES;
            if is_full && let Some(last) = last {
                return Ok((sum, Some(Cursor::after(last))));
            }
            let tally = each(number)?;
            conversations += 1;
            rows = rows.saturating_add(tally.rows());
            bytes = bytes.saturating_add(tally.bytes);
            sum += tally.counted;
            // A key that is not the id of a conversation was written by another program. No step ends there.
            last = key.parse().ok().or(last);
        }
        Ok((sum, None))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::ConversationId;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_those_of_the_prefix_after_the_cursor(
            prefix in prop::collection::vec("[a/.~0é-]{1,2}", 0..3),
            parts in prop::collection::vec("[a/.~0é-]{1,2}", 1..4),
            cursor in prop::option::of(prop::collection::vec("[a/.~0é-]{1,2}", 1..4)),
        ) {
            let (under, id) = (Prefix::new(&prefix).unwrap(), ConversationId::new(&parts).unwrap());
            let cursor = cursor.map(|parts| Cursor::after(ConversationId::new(&parts).unwrap()));
            let keys = Keys::new(&under, cursor.as_ref());
            let (key, exact) = (id.as_str(), keys.exact.as_deref());
            let is_in_range = key > keys.after.as_str() && key < keys.before.as_str();
            let is_after = cursor.is_none_or(|cursor| id > *cursor.last());
            prop_assert_eq!(exact == Some(key) || is_in_range, under.contains(&id) && is_after);
            prop_assert!(exact != Some(key) || !is_in_range, "no key is found twice");
            prop_assert!(exact.is_none_or(|exact| exact < keys.after.as_str()), "the exact key is the first one");
        }
    }
}

//! The erasures that the file remembers.
//!
//! # Decisions
//!
//! - **Erasures are remembered as digests**, because ids often contain names of people.

use rusqlite::{Connection, OptionalExtension, params};
use tower_chat_history_core::{ConversationId, Digest, Epoch, Prefix, StoreError, backend::Erasures};

use crate::{
    error::{Failure, UnwrittenRow},
    job::Request,
    stats::Counters,
};

/// The number of epochs whose erasures are remembered. Each erasure begins an epoch, so it also bounds the number of
/// remembered keys.
const REMEMBERED: u64 = Erasures::CAPACITY as u64;

/// Returns the current epoch.
pub(crate) fn current(connection: &Connection) -> rusqlite::Result<Epoch> {
    let sql = "SELECT max(epoch) FROM erasure";
    let newest: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(Epoch::new(newest.and_then(|epoch| u64::try_from(epoch).ok()).unwrap_or(0)))
}

/// Checks that the conversation was not erased after the epoch that an append names.
///
/// # Errors
///
/// Returns [`Gone`](StoreError::Gone) if it was, or if this is not known any more.
pub(crate) fn check(connection: &Connection, id: &ConversationId, since: Epoch) -> Result<(), Failure> {
    let current = current(connection)?;
    if since == current {
        return Ok(());
    }

    // An epoch that lies in the future is of another file, or of a copy that was restored.
    if since > current || current.get() - since.get() > REMEMBERED {
        return Err(StoreError::Gone.into());
    }

    let sql = "SELECT 1 FROM erasure WHERE erased = ?1 AND epoch > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let since = stored(since);
    for key in Erasures::keys_concerning(id) {
        if statement.query_row(params![digest(&key), since], |_| Ok(())).optional()?.is_some() {
            return Err(StoreError::Gone.into());
        }
    }
    Ok(())
}

/// Records an erasure without removing anything.
pub(crate) struct RecordErasure {
    pub(crate) under: Prefix,
}

impl Request for RecordErasure {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        record(connection, &Erasures::key(&self.under))
    }
}

/// Records the deletion of a conversation.
pub(crate) fn record_deletion(connection: &Connection, id: &ConversationId) -> Result<(), Failure> {
    record(connection, id.as_str())
}

/// Begins an epoch with the erasure that has this key, and forgets the oldest one.
fn record(connection: &Connection, key: &str) -> Result<(), Failure> {
    let epoch = stored(current(connection)?.next());

    let sql = "INSERT INTO erasure (epoch, erased) \
               VALUES (?1, ?2) \
               ON CONFLICT (erased) DO UPDATE SET epoch = excluded.epoch";
    let rows = connection.prepare_cached(sql)?.execute(params![epoch, digest(key)])?;
    UnwrittenRow::check(rows)?;

    let sql = "DELETE FROM erasure WHERE epoch <= ?1 - ?2";
    connection.prepare_cached(sql)?.execute([epoch, REMEMBERED as i64])?;
    Ok(())
}

/// Returns the text that stands for the key of an erasure in the table. The table must not keep the ids of erased
/// conversations.
fn digest(key: &str) -> String {
    Digest::of(key.as_bytes()).to_string()
}

/// Converts an epoch for SQLite. None comes near the maximum.
fn stored(epoch: Epoch) -> i64 {
    i64::try_from(epoch.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn empty() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("connection/schema-1.sql")).unwrap();
        connection
    }

    fn was_erased(connection: &Connection, id: &ConversationId, since: Epoch) -> bool {
        match check(connection, id, since) {
            Ok(()) => false,
            Err(Failure::Store(StoreError::Gone)) => true,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    proptest! {
        #[test]
        fn the_table_remembers_what_core_remembers(
            erased in prop::collection::vec((prop::collection::vec("[ab]", 0..4), any::<bool>()), 0..12),
            parts in prop::collection::vec("[ab]", 1..4),
        ) {
            let connection = empty();
            let mut expected = Erasures::default();
            for (prefix, deletes) in erased {
                let prefix = Prefix::new(prefix).unwrap();
                if let Some(id) = prefix.as_id().filter(|_| deletes) {
                    record_deletion(&connection, id).unwrap();
                    expected.record_deletion(id);
                } else {
                    record(&connection, &Erasures::key(&prefix)).unwrap();
                    expected.record(&prefix);
                }
            }
            prop_assert_eq!(current(&connection).unwrap(), expected.current());
            let id = ConversationId::new(parts).unwrap();
            for since in (0..14).map(Epoch::new) {
                prop_assert_eq!(was_erased(&connection, &id, since), expected.was_erased(&id, since), "{:?}", since);
            }
        }
    }

    #[test]
    fn the_oldest_erasures_are_forgotten_and_turns_from_before_them_are_refused() {
        let connection = empty();
        for key in ["a", "b/"] {
            record(&connection, key).unwrap();
        }
        // As after many other erasures.
        connection.execute("INSERT INTO erasure VALUES (?1, 'x')", [REMEMBERED as i64]).unwrap();
        let other = "other".parse().unwrap();
        assert!(!was_erased(&connection, &other, Epoch::new(0)), "all are remembered");
        for (key, forgotten) in [("c", 1), ("c", 2), ("d/", 3)] {
            record(&connection, key).unwrap();
            let sql = "SELECT min(epoch) > ?1 FROM erasure";
            assert!(connection.query_row(sql, [forgotten as i64], |row| row.get::<_, bool>(0)).unwrap());
            assert!(was_erased(&connection, &other, Epoch::new(forgotten - 1)), "it may have been erased");
            assert!(!was_erased(&connection, &other, Epoch::new(forgotten)));
        }
        let rows: i64 = connection.query_row("SELECT count(*) FROM erasure", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3, "the last erasures of c, of d, and x");
    }

    #[test]
    fn the_table_has_no_ids() {
        let connection = empty();
        record(&connection, "acme/secret").unwrap();
        let key: String = connection.query_row("SELECT erased FROM erasure", [], |row| row.get(0)).unwrap();
        assert!(!key.contains("acme") && key.len() == 16, "{key}");
    }
}

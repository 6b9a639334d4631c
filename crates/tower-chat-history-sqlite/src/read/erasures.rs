//! The erasures that the file remembers.

use rusqlite::{Connection, OptionalExtension, params};
use tower_chat_history_core::{ConversationId, Digest, Epoch, StoreError, backend::Erasures};

use crate::error::Failure;

/// The number of epochs whose erasures are remembered. Each erasure begins an epoch, so it also bounds the number of
/// remembered keys.
pub(crate) const REMEMBERED: u64 = Erasures::CAPACITY as u64;

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
    let since = stored(since);
    let sql = "SELECT 1 FROM erasure WHERE erased = ?1 AND epoch > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    for key in Erasures::keys_concerning(id) {
        if statement.query_row(params![digest(&key), since], |_| Ok(())).optional()?.is_some() {
            return Err(StoreError::Gone.into());
        }
    }
    Ok(())
}

/// Returns the text that stands for the key of an erasure in the table. The table must not keep the ids of erased
/// conversations.
pub(crate) fn digest(key: &str) -> String {
    Digest::of(key.as_bytes()).to_string()
}

/// Converts an epoch for SQLite. None comes near the maximum.
pub(crate) fn stored(epoch: Epoch) -> i64 {
    i64::try_from(epoch.get()).unwrap_or(i64::MAX)
}

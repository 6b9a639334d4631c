//! Removing what was derived from removed exchanges.

use rusqlite::{Connection, OptionalExtension};
use tower_chat_history_core::StoreError;

use crate::{
    error::{Failure, NotWritten},
    read::{MAX_EXCHANGES, place},
};

/// Removes the data that does not survive an erasure from a log that begins at `first`: the text in compactions,
/// recalled messages that cite something else than the log, and all provenances.
pub(super) fn erase(connection: &Connection, number: i64, first: u64) -> Result<(), Failure> {
    // `Compaction::without_derived`
    let sql = "UPDATE compaction SET version = version + 1, derived = NULL, \
               window_start = CASE WHEN derived IS NULL THEN window_start ELSE ?2 END WHERE conversation = ?1";
    connection.prepare_cached(sql)?.execute([number, position(first)])?;
    let sql = "UPDATE exchange SET recalled_first = NULL, recalled = NULL \
               WHERE conversation = ?1 AND recalled_first < ?2";
    connection.prepare_cached(sql)?.execute([number, position(first)])?;
    // A trigger may have prevented the update.
    let recalled = has_foreign(connection, number, first)?;
    let places = [place(number, 0), place(number, MAX_EXCHANGES)];
    let sql = "UPDATE exchange SET provenance = NULL WHERE place BETWEEN ?1 AND ?2 AND provenance IS NOT NULL";
    connection.prepare_cached(sql)?.execute(places)?;
    let sql = "SELECT 1 FROM exchange WHERE place BETWEEN ?1 AND ?2 AND provenance IS NOT NULL LIMIT 1";
    let provenance = connection.prepare_cached(sql)?.query_row(places, |_| Ok(())).optional()?;
    if recalled || provenance.is_some() { Err(StoreError::backend(NotWritten).into()) } else { Ok(()) }
}

/// Returns `true` if recalled messages of a log that begins at `first` cite something else than the log.
pub(super) fn has_foreign(connection: &Connection, number: i64, first: u64) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM exchange WHERE conversation = ?1 AND recalled_first < ?2 LIMIT 1";
    connection.prepare_cached(sql)?.exists([number, position(first)])
}

/// Converts a position of a log for SQLite. It has 32 bits.
const fn position(seq: u64) -> i64 {
    seq as i64
}

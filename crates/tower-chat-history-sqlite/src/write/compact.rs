//! Storing a compaction.

use rusqlite::{Connection, params};
use tower_chat_history_core::{Compact, CompactOutcome, CompactionVersion, ConversationId, Incarnation, StoreError};

use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::Log,
    stats::Counters,
};

pub(crate) struct StoreCompaction {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) compact: Compact,
}

impl Request for StoreCompaction {
    type Answer = CompactOutcome;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<CompactOutcome, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        store(connection, &self.id, &log.ok_or(StoreError::Gone)?, &self.compact)
    }
}

/// Stores the compaction if it replaces the stored version, and keeps the stored one otherwise.
pub(super) fn store(
    connection: &Connection,
    id: &ConversationId,
    log: &Log,
    compact: &Compact,
) -> Result<CompactOutcome, Failure> {
    let stored = log.compaction(connection, id, &compact.profile)?;
    let version = stored.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
    if version != compact.replaces {
        return Ok(CompactOutcome::Kept(stored));
    }
    write(connection, log.id, compact).map(CompactOutcome::Stored)
}

/// Writes the compaction in place of the stored one, and returns its version.
pub(super) fn write(connection: &Connection, number: i64, compact: &Compact) -> Result<CompactionVersion, Failure> {
    let version = compact.replaces.next();
    let sql = "REPLACE INTO compaction (conversation, profile, version, window_start, state, derived) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let row = params![
        number,
        compact.profile.as_str(),
        integer(version.get()),
        integer(compact.window_start.get()),
        &*compact.state,
        compact.derived.as_deref(),
    ];
    NotWritten::check(connection.prepare_cached(sql)?.execute(row)?)?;
    Ok(version)
}

/// Returns `true` if the compaction that this one replaces is stored.
pub(super) fn is_current(connection: &Connection, number: i64, compact: &Compact) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM compaction WHERE conversation = ?1 AND profile = ?2 AND version = ?3";
    let key = params![number, compact.profile.as_str(), integer(compact.replaces.get())];
    connection.prepare_cached(sql)?.exists(key)
}

/// Converts a version or a position for SQLite. None that occurs exceeds the maximum.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

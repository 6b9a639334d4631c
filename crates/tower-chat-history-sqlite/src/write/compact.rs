//! Storing a compaction.

use rusqlite::{Connection, OptionalExtension, params};
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, ConversationId, Incarnation, Seq, StoreError,
};

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
    let stored = stored.map(|stored| stored.parse(id, &compact.profile, log.len)).transpose()?;
    let version = stored.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
    if version != compact.replaces {
        return Ok(CompactOutcome::Kept(stored));
    }
    let mut looked_up = Ok(true);
    let allowed = compact.cut.check(stored.as_ref().map(|stored| &stored.cut), log.len, |seq| {
        looked_up = opens_turn(connection, log, seq);
        *looked_up.as_ref().unwrap_or(&false)
    });
    // If the lookup failed, the check failed because of it, so the lookup's error is returned.
    looked_up?;
    allowed.map_err(StoreError::from)?;
    let version = version.next();
    let body = compact.stored_as(version).encode().map_err(StoreError::backend)?;
    let sql = "INSERT INTO compaction (conversation, profile, version, body) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (conversation, profile) DO UPDATE SET version = excluded.version, body = excluded.body";
    let number = i64::try_from(version.get()).unwrap_or(i64::MAX);
    let rows = connection.prepare_cached(sql)?.execute(params![log.id, compact.profile.as_str(), number, body])?;
    NotWritten::check(rows)?;
    Ok(CompactOutcome::Stored(version))
}

fn opens_turn(connection: &Connection, log: &Log, seq: Seq) -> rusqlite::Result<bool> {
    if seq < log.revision.first() {
        // A pruned position counts as an opening: a window from there starts with the log.
        return Ok(true);
    }
    let sql = "SELECT continues IS NULL FROM exchange WHERE place = ?1";
    let opens = connection.prepare_cached(sql)?.query_row([log.place(seq.get())], |row| row.get(0)).optional()?;
    Ok(opens.unwrap_or(false))
}

//! Replacing what is stored beside the log: a compaction, and the labels.

use rusqlite::{Connection, params};
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion,
    StoreError,
};

use crate::{
    error::{Failure, UnwrittenRow},
    job::Request,
    read::{Log, labels},
    stats::Counters,
};

/// Stores a compaction by itself.
pub(crate) struct StoreCompaction {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) compact: Compact,
}

impl Request for StoreCompaction {
    type Answer = CompactOutcome;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<CompactOutcome, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        store_compaction(connection, &self.id, &log.ok_or(StoreError::Gone)?, &self.compact)
    }
}

/// Stores the compaction if it replaces the stored version, and keeps the stored one otherwise.
pub(super) fn store_compaction(
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
    write_compaction(connection, log.id, compact).map(CompactOutcome::Stored)
}

/// Writes the compaction in place of the stored one, and returns its version.
pub(super) fn write_compaction(
    connection: &Connection,
    number: i64,
    compact: &Compact,
) -> Result<CompactionVersion, Failure> {
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
    UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;
    Ok(version)
}

/// Returns `true` if the compaction that this one replaces is stored.
pub(super) fn is_current(connection: &Connection, number: i64, compact: &Compact) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM compaction WHERE conversation = ?1 AND profile = ?2 AND version = ?3";
    let key = params![number, compact.profile.as_str(), integer(compact.replaces.get())];
    connection.prepare_cached(sql)?.exists(key)
}

/// Replaces the labels of a conversation.
pub(crate) struct ReplaceLabels {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) replaces: LabelsVersion,
    pub(crate) labels: Labels,
}

impl Request for ReplaceLabels {
    type Answer = LabelsOutcome;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<LabelsOutcome, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;

        let sql = "SELECT labels_version, labels FROM conversation WHERE id = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([log.id])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        // If the stored labels are damaged, they can still be replaced.
        if row.get::<_, i64>(0).ok() != i64::try_from(self.replaces.get()).ok() {
            let (stored, version) = labels(&self.id, row, 0)?;
            return Ok(LabelsOutcome::Kept(stored, version));
        }

        let next = self.replaces.next();
        let encoded = (!self.labels.is_empty()).then(|| self.labels.encode());
        let row = params![log.id, integer(next.get()), encoded];

        let sql = "UPDATE conversation SET labels_version = ?2, labels = ?3 WHERE id = ?1";
        UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;
        Ok(LabelsOutcome::Stored(next))
    }
}

/// Converts a version or a position for SQLite. None that occurs exceeds the maximum.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

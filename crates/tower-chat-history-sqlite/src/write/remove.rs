//! Removing: a conversation, the conversations under a prefix, the end of a log, and its beginning.

use rusqlite::{Connection, OptionalExtension, params};
use tower_chat_history_core::{
    Compact, ConversationId, Cursor, Derived, Expect, Incarnation, PruneTo, Pruned, Removed, Revision, Seq, StoreError,
    Truncated, backend::PruneScan,
};

use super::replace;
use crate::{
    erasures,
    error::{Failure, UnwrittenRow},
    job::Request,
    read::{Log, MAX_EXCHANGES, Step, count_conversation, count_exchanges, place, seq_of, size},
    stats::Counters,
};

/// Removes a conversation, and records its erasure, so that calls that are running cannot begin it again.
pub(crate) struct DeleteConversation {
    pub(crate) id: ConversationId,
}

impl Request for DeleteConversation {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        erasures::record_deletion(connection, &self.id)?;

        // A conversation can be deleted even if its row is damaged.
        let Some(number) = Log::find_number(connection, &self.id)? else { return Ok(()) };
        remove_conversation(connection, number).map(drop)
    }
}

/// Removes a conversation if its log has this revision.
pub(crate) struct DeleteIf {
    pub(crate) id: ConversationId,
    pub(crate) revision: Revision,
}

impl Request for DeleteIf {
    type Answer = Option<Removed>;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Option<Removed>, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision == self.revision);
        log.map(|log| remove_conversation(connection, log.id)).transpose()
    }
}

/// Removes the conversations of one step.
pub(crate) struct EraseStep(pub(crate) Step);

impl Request for EraseStep {
    type Answer = (Removed, Option<Cursor>);

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Self::Answer, Failure> {
        self.0.walk(connection, |number| remove_conversation(connection, number))
    }
}

/// Removes all rows of the conversation with this number, and returns their numbers. A later conversation may get the
/// same number, so none may stay. Foreign keys could do the same, but would cost a lookup for each append.
fn remove_conversation(connection: &Connection, number: i64) -> Result<Removed, Failure> {
    let counted = count_conversation(connection, number)?;
    remove_exchanges(connection, number, 0, MAX_EXCHANGES)?;

    let sql = "DELETE FROM compaction WHERE conversation = ?1";
    check(connection.prepare_cached(sql)?.execute([number])?, counted.compactions)?;

    let sql = "DELETE FROM conversation WHERE id = ?1";
    check(connection.prepare_cached(sql)?.execute([number])?, 1)?;
    Ok(counted)
}

/// Removes the exchanges from one position to another, both included, and returns their size in bytes of message JSON.
/// To remove all, pass [`MAX_EXCHANGES`] as the last position: a damaged conversation may have exchanges after the end
/// of its log.
fn remove_exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> Result<u64, Failure> {
    let (count, bytes) = count_exchanges(connection, number, first, last)?;

    let places = [place(number, first), place(number, last)];
    let sql = "DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2";
    check(connection.prepare_cached(sql)?.execute(places)?, count)?;
    Ok(bytes)
}

/// Checks that all rows were removed.
fn check(removed: usize, expected: u64) -> Result<(), StoreError> {
    if removed as u64 == expected { Ok(()) } else { Err(StoreError::backend(UnwrittenRow)) }
}

/// Removes the end of a log.
pub(crate) struct TruncateLog {
    pub(crate) id: ConversationId,
    pub(crate) expect: Revision,
    pub(crate) from: Seq,
    pub(crate) keep: Option<Compact>,
}

impl Request for TruncateLog {
    type Answer = Truncated;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Truncated, Failure> {
        let log = Log::find(connection, &self.id)?.ok_or(StoreError::Gone)?;
        Expect::Exactly(self.expect).check(Some(log.revision))?;

        let len = self.from.get();
        if len >= log.len {
            return Ok(Truncated::new(Some(log.revision), 0));
        }

        if len <= log.first() {
            // As after a deletion, a call that is running cannot begin the conversation again.
            erasures::record_deletion(connection, &self.id)?;
            remove_conversation(connection, log.id)?;
            return Ok(Truncated::new(None, log.len - log.first()));
        }

        let removed = remove_exchanges(connection, log.id, len, MAX_EXCHANGES)?;
        self.remove_compactions(connection, log.id)?;
        let revision = begin_incarnation(connection, &log, len, removed)?;
        Ok(Truncated::new(Some(revision), log.len - len))
    }
}

impl TruncateLog {
    /// Removes the compactions, except the one that the caller carries over.
    fn remove_compactions(&self, connection: &Connection, number: i64) -> Result<(), Failure> {
        let carried = match &self.keep {
            Some(keep) if replace::is_current(connection, number, keep)? => Some(keep),
            _ => None,
        };

        let sql = "DELETE FROM compaction WHERE conversation = ?1";
        connection.prepare_cached(sql)?.execute([number])?;

        if let Some(keep) = carried {
            replace::write_compaction(connection, number, keep)?;
        }
        Ok(())
    }
}

/// Begins a new incarnation with the exchanges before position `len`, after others of this size were removed. In it,
/// each position counts as one change.
fn begin_incarnation(connection: &Connection, log: &Log, len: u64, removed_bytes: u64) -> Result<Revision, Failure> {
    let incarnation = Incarnation::random();
    let row = params![log.id, incarnation.as_bytes(), integer(len), integer(removed_bytes)];

    let sql = "UPDATE conversation \
               SET incarnation = ?2, version = ?3, len = ?3, bytes = max(bytes - ?4, 0) \
               WHERE id = ?1";
    UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;

    Ok(Revision::new(incarnation, len).beginning_at(log.revision.first()))
}

/// Removes the beginning of a log.
pub(crate) struct PruneLog {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) keep: PruneTo,
    pub(crate) derived: Derived,
}

impl Request for PruneLog {
    type Answer = Pruned;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Pruned, Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;

        let first = self.scan(connection, &log)?.start().map_or(log.first(), Seq::get);
        let removed = first - log.first();
        let log = if removed > 0 { begin_at(connection, &log, first)? } else { log };

        if self.derived == Derived::Keep || first == 0 && !cites_elsewhere(connection, log.id, first)? {
            return Ok(Pruned::new(log.revision, removed));
        }

        erase_derived(connection, log.id, first)?;
        let revision = begin_incarnation(connection, &log, log.len, 0)?;
        Ok(Pruned::new(revision, removed))
    }
}

impl PruneLog {
    /// Walks back through the exchanges that are kept, without reading bodies. A missing row is found when the log is
    /// read.
    fn scan(&self, connection: &Connection, log: &Log) -> Result<PruneScan, Failure> {
        let mut scan = PruneScan::new(self.keep, Seq::new(log.len));

        let sql = "SELECT place, continues IS NULL, messages, bytes, octet_length(body) FROM exchange \
                   WHERE place >= ?1 AND place < ?2 \
                   ORDER BY place DESC";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([log.place(log.first()), log.place(scan.end().get())])?;
        while let Some(row) = rows.next()? {
            let seq = seq_of(row.get(0)?);
            // Only this variant needs the number of messages. For the others it is not checked: a damaged row may be
            // one that is removed.
            let messages = match self.keep {
                PruneTo::LastMessages(_) => size(&self.id, seq, (row.get(2)?, row.get(3)?, row.get(4)?))?.0,
                _ => 0,
            };
            if scan.offer(Seq::new(seq), row.get(1)?, messages).is_break() {
                break;
            }
        }
        Ok(scan)
    }
}

/// Removes the exchanges before a position.
fn begin_at(connection: &Connection, log: &Log, first: u64) -> Result<Log, Failure> {
    let removed = remove_exchanges(connection, log.id, 0, first - 1)?;

    let sql = "UPDATE conversation SET first = ?2, bytes = max(bytes - ?3, 0) WHERE id = ?1";
    let row = [log.id, integer(first), integer(removed)];
    UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;

    let revision = log.revision.beginning_at(Seq::new(first));
    Ok(Log { revision, ..*log })
}

/// Removes the data that does not survive an erasure from a log that begins at `first`: the text in compactions,
/// recalled messages that cite something else than the log, and all provenances.
fn erase_derived(connection: &Connection, number: i64, first: u64) -> Result<(), Failure> {
    // `Compaction::without_derived`
    let sql = "UPDATE compaction \
               SET version = version + 1, derived = NULL, \
               window_start = CASE WHEN derived IS NULL THEN window_start ELSE ?2 END \
               WHERE conversation = ?1";
    connection.prepare_cached(sql)?.execute([number, integer(first)])?;

    let sql = "UPDATE exchange SET recalled_first = NULL, recalled = NULL \
               WHERE conversation = ?1 AND recalled_first < ?2";
    connection.prepare_cached(sql)?.execute([number, integer(first)])?;

    let places = [place(number, 0), place(number, MAX_EXCHANGES)];
    let sql = "UPDATE exchange SET provenance = NULL \
               WHERE place BETWEEN ?1 AND ?2 AND provenance IS NOT NULL";
    connection.prepare_cached(sql)?.execute(places)?;

    // A trigger may have prevented an update.
    let sql = "SELECT 1 FROM exchange WHERE place BETWEEN ?1 AND ?2 AND provenance IS NOT NULL LIMIT 1";
    let provenance = connection.prepare_cached(sql)?.query_row(places, |_| Ok(())).optional()?;
    if provenance.is_some() || cites_elsewhere(connection, number, first)? {
        return Err(StoreError::backend(UnwrittenRow).into());
    }
    Ok(())
}

/// Returns `true` if recalled messages of a log that begins at `first` cite something else than the log.
fn cites_elsewhere(connection: &Connection, number: i64, first: u64) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM exchange WHERE conversation = ?1 AND recalled_first < ?2 LIMIT 1";
    connection.prepare_cached(sql)?.exists([number, integer(first)])
}

/// Converts a position, a version or a size for SQLite. None that occurs exceeds the maximum.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

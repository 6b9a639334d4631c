//! Removing the end of a log.

use rusqlite::{Connection, params};
use tower_chat_history_core::{Compact, ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use super::{compact, delete, erasures};
use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::{Log, MAX_EXCHANGES},
    stats::Counters,
};

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
            delete::conversation(connection, log.id)?;
            return Ok(Truncated::new(None, log.len - log.first()));
        }
        let removed = delete::exchanges(connection, log.id, len, MAX_EXCHANGES)?;
        self.remove_compactions(connection, log.id)?;
        let revision = begin_incarnation(connection, &log, len, removed)?;
        Ok(Truncated::new(Some(revision), log.len - len))
    }
}

impl TruncateLog {
    /// Removes the compactions, except the one that the caller carries over.
    fn remove_compactions(&self, connection: &Connection, number: i64) -> Result<(), Failure> {
        let carried = match &self.keep {
            Some(keep) if compact::is_current(connection, number, keep)? => Some(keep),
            _ => None,
        };
        connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([number])?;
        if let Some(keep) = carried {
            compact::write(connection, number, keep)?;
        }
        Ok(())
    }
}

/// Begins a new incarnation with the exchanges before position `len`, after others of this size were removed. In it,
/// each position counts as one change.
pub(super) fn begin_incarnation(
    connection: &Connection,
    log: &Log,
    len: u64,
    removed_bytes: u64,
) -> Result<Revision, Failure> {
    let incarnation = Incarnation::random();
    let [changes, removed_bytes] = [len, removed_bytes].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let sql = "UPDATE conversation SET incarnation = ?2, version = ?3, len = ?3, bytes = max(bytes - ?4, 0) \
               WHERE id = ?1";
    let row = params![log.id, incarnation.as_bytes(), changes, removed_bytes];
    NotWritten::check(connection.prepare_cached(sql)?.execute(row)?)?;
    Ok(Revision::new(incarnation, len).beginning_at(log.revision.first()))
}

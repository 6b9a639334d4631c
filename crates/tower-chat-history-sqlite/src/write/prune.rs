//! Removing the beginning of a log.

use rusqlite::Connection;
use tower_chat_history_core::{
    ConversationId, Derived, Incarnation, PruneTo, Pruned, Seq, StoreError,
    backend::{PruneScan, Scan},
};

use super::{delete, derived, truncate};
use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::{Log, seq_of, size},
    stats::Counters,
};

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
        if self.derived == Derived::Keep || first == 0 && !derived::has_foreign(connection, log.id, first)? {
            return Ok(Pruned::new(log.revision, removed));
        }
        derived::erase(connection, log.id, first)?;
        let revision = truncate::begin_incarnation(connection, &log, log.len, 0)?;
        Ok(Pruned::new(revision, removed))
    }
}

impl PruneLog {
    /// Walks back through the exchanges that are kept, without reading bodies. A missing row is found when the log is
    /// read.
    fn scan(&self, connection: &Connection, log: &Log) -> Result<PruneScan, Failure> {
        let mut scan = PruneScan::new(self.keep, Seq::new(log.len));
        let mut statement = connection.prepare_cached(
            "SELECT place, continues IS NULL, messages, bytes, octet_length(body) FROM exchange \
             WHERE place >= ?1 AND place < ?2 ORDER BY place DESC",
        )?;
        let mut rows = statement.query([log.place(log.first()), log.place(scan.end().get())])?;
        while let Some(row) = rows.next()? {
            let seq = seq_of(row.get(0)?);
            // Only this variant needs the number of messages. For the others it is not checked: a damaged row may be
            // one that is removed.
            let messages = match self.keep {
                PruneTo::LastMessages(_) => size(&self.id, seq, (row.get(2)?, row.get(3)?, row.get(4)?))?.0,
                _ => 0,
            };
            if scan.offer(Seq::new(seq), row.get(1)?, messages) == Scan::Stop {
                break;
            }
        }
        Ok(scan)
    }
}

/// Removes the exchanges before a position.
fn begin_at(connection: &Connection, log: &Log, first: u64) -> Result<Log, Failure> {
    let removed = delete::exchanges(connection, log.id, 0, first - 1)?;
    let [number, removed] = [first, removed].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let sql = "UPDATE conversation SET first = ?2, bytes = max(bytes - ?3, 0) WHERE id = ?1";
    NotWritten::check(connection.prepare_cached(sql)?.execute([log.id, number, removed])?)?;
    let revision = log.revision.beginning_at(Seq::new(first));
    Ok(Log { revision, ..*log })
}

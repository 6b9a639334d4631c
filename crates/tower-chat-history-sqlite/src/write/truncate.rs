//! Removing the end of a log.

use rusqlite::{Connection, params};
use tower_chat_history_core::{Compaction, ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use super::delete;
use crate::{error::Failure, job::Request, read::Log, stats::Counters};

pub(crate) struct TruncateLog {
    pub(crate) id: ConversationId,
    pub(crate) expect: Revision,
    pub(crate) from: Seq,
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
        if len == 0 {
            delete::conversation(connection, &log)?;
            return Ok(Truncated::new(None, log.len));
        }
        delete::exchanges(connection, &log, len)?;
        shorten_compactions(connection, &log, len)?;
        let revision = begin_incarnation(connection, &log, len)?;
        Ok(Truncated::new(Some(revision), log.len - len))
    }
}

/// Rewrites or removes the compaction of each profile.
fn shorten_compactions(connection: &Connection, log: &Log, len: u64) -> Result<(), Failure> {
    for (profile, stored) in log.compactions(connection)? {
        // What cannot be read might tell of what is removed: it does not stay.
        match stored.and_then(|stored| stored.truncated_to(len)) {
            Some(compaction) => replace(connection, log, &profile, &compaction)?,
            None => remove(connection, log, &profile)?,
        }
    }
    Ok(())
}

fn replace(connection: &Connection, log: &Log, profile: &str, compaction: &Compaction) -> Result<(), Failure> {
    let body = compaction.cut.encode().map_err(StoreError::backend)?;
    let version = i64::try_from(compaction.version.get()).unwrap_or(i64::MAX);
    let sql = "UPDATE compaction SET version = ?3, body = ?4 WHERE conversation = ?1 AND profile = ?2";
    connection.prepare_cached(sql)?.execute(params![log.id, profile, version, body])?;
    Ok(())
}

fn remove(connection: &Connection, log: &Log, profile: &str) -> Result<(), Failure> {
    let sql = "DELETE FROM compaction WHERE conversation = ?1 AND profile = ?2";
    connection.prepare_cached(sql)?.execute(params![log.id, profile])?;
    Ok(())
}

/// What stays begins a new incarnation, in which each exchange counts as one change.
fn begin_incarnation(connection: &Connection, log: &Log, len: u64) -> Result<Revision, Failure> {
    let incarnation = Incarnation::random();
    let changes = i64::try_from(len).unwrap_or(i64::MAX);
    let sql = "UPDATE conversation SET incarnation = ?2, version = ?3, len = ?3 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![log.id, incarnation.as_bytes(), changes])?;
    Ok(Revision::new(incarnation, len))
}

//! What becomes of all of a conversation's compactions.

use rusqlite::{Connection, params};
use tower_chat_history_core::{Compaction, StoreError};

use crate::{error::Failure, read::Log};

/// Replaces the compaction of each profile by what is to stay of it, or removes it: one that cannot be read, in any case.
pub(super) fn rewrite(
    connection: &Connection,
    log: &Log,
    stays: impl Fn(&Compaction) -> Option<Compaction>,
) -> Result<(), Failure> {
    for (profile, stored) in log.compactions(connection)? {
        match stored.as_ref().and_then(&stays) {
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

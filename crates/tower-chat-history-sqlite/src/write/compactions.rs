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
    let compactions = log.compactions(connection)?;
    connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([log.id])?;
    let sql = "INSERT INTO compaction (conversation, profile, version, body) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    for (profile, stored) in compactions {
        let Some(compaction) = stays(&stored) else { continue };
        let body = compaction.cut.encode().map_err(StoreError::backend)?;
        let version = i64::try_from(compaction.version.get()).unwrap_or(i64::MAX);
        insert.execute(params![log.id, profile.as_str(), version, body])?;
    }
    Ok(())
}

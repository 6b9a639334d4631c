//! Rewriting all compactions of a conversation.

use rusqlite::{Connection, params};
use tower_chat_history_core::{Compaction, StoreError};

use crate::{
    error::{Failure, NotWritten},
    read::Log,
};

/// Replaces the compaction of each profile by the result of `rewritten`, or removes it if there is none. Compactions
/// that cannot be read are removed.
pub(super) fn rewrite(
    connection: &Connection,
    log: &Log,
    rewritten: impl Fn(&Compaction) -> Option<Compaction>,
) -> Result<(), Failure> {
    let compactions = log.compactions(connection)?;
    connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([log.id])?;
    let sql = "INSERT INTO compaction (conversation, profile, version, body) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    for (profile, stored) in compactions {
        let Some(compaction) = rewritten(&stored) else { continue };
        let body = compaction.encode().map_err(StoreError::backend)?;
        let version = i64::try_from(compaction.version.get()).unwrap_or(i64::MAX);
        NotWritten::check(insert.execute(params![log.id, profile.as_str(), version, body])?)?;
    }
    Ok(())
}

//! Removing a conversation.

use rusqlite::Connection;
use tower_chat_history_core::{ConversationId, Removed, Revision, StoreError};

use super::erasures;
use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::{Log, MAX_EXCHANGES, place, tally},
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
        conversation(connection, number).map(drop)
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
        log.map(|log| conversation(connection, log.id)).transpose()
    }
}

/// Removes all rows of the conversation with this number, and returns their numbers. A later conversation may get the
/// same number, so none may stay. Foreign keys could do the same, but would cost a lookup for each append.
pub(super) fn conversation(connection: &Connection, number: i64) -> Result<Removed, Failure> {
    let counted = tally::conversation(connection, number)?;
    exchanges(connection, number, 0, MAX_EXCHANGES)?;
    let sql = "DELETE FROM compaction WHERE conversation = ?1";
    check(connection.prepare_cached(sql)?.execute([number])?, counted.compactions)?;
    check(connection.prepare_cached("DELETE FROM conversation WHERE id = ?1")?.execute([number])?, 1)?;
    Ok(counted)
}

/// Removes the exchanges from one position to another, both included, and returns their size in bytes of message JSON.
/// To remove all, pass [`MAX_EXCHANGES`] as the last position: a damaged conversation may have exchanges after the end
/// of its log.
pub(super) fn exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> Result<u64, Failure> {
    let (count, bytes) = tally::exchanges(connection, number, first, last)?;
    let places = [place(number, first), place(number, last)];
    let sql = "DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2";
    check(connection.prepare_cached(sql)?.execute(places)?, count)?;
    Ok(bytes)
}

/// Checks that all rows were removed.
fn check(removed: usize, expected: u64) -> Result<(), StoreError> {
    if removed as u64 == expected { Ok(()) } else { Err(StoreError::backend(NotWritten)) }
}

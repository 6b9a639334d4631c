//! Removing a conversation.

use rusqlite::Connection;
use tower_chat_history_core::ConversationId;

use super::derived;
use crate::{
    error::Failure,
    job::Request,
    read::{Log, MAX_EXCHANGES, place},
    stats::Counters,
};

pub(crate) struct DeleteConversation {
    pub(crate) id: ConversationId,
}

impl Request for DeleteConversation {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        // A conversation can be deleted even if its row is damaged.
        let Some(number) = Log::find_number(connection, &self.id)? else { return Ok(()) };
        Ok(conversation(connection, number)?)
    }
}

/// Removes all rows of the conversation with this number. A later conversation may get the same number, so none may
/// stay. Foreign keys could do the same, but would cost a lookup for each append.
pub(super) fn conversation(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    exchanges(connection, number, 0, MAX_EXCHANGES)?;
    connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([number])?;
    derived::remove_attachments(connection, number)?;
    connection.prepare_cached("DELETE FROM conversation WHERE id = ?1")?.execute([number])?;
    Ok(())
}

/// Removes the exchanges from one position to another, both included. To remove all, pass [`MAX_EXCHANGES`] as the last
/// position: a damaged conversation may have exchanges after the end of its log.
pub(super) fn exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> rusqlite::Result<()> {
    let (first, last) = (place(number, first), place(number, last));
    connection.prepare_cached("DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2")?.execute([first, last])?;
    Ok(())
}

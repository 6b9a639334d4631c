//! Removing a conversation.

use rusqlite::Connection;
use tower_chat_history_core::ConversationId;

use crate::{
    error::Failure,
    job::Request,
    read::{LONGEST_LOG, Log, place},
    stats::Counters,
};

pub(crate) struct DeleteConversation {
    pub(crate) id: ConversationId,
}

impl Request for DeleteConversation {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        // Also a conversation whose row is damaged can be deleted.
        let Some(number) = Log::find_number(connection, &self.id)? else { return Ok(()) };
        Ok(conversation(connection, number)?)
    }
}

/// Removes everything of the conversation with that number, by hand and not by foreign keys, which would cost a look-up
/// with each append.
pub(super) fn conversation(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    exchanges(connection, number, 0, LONGEST_LOG)?;
    connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([number])?;
    connection.prepare_cached("DELETE FROM conversation WHERE id = ?1")?.execute([number])?;
    Ok(())
}

/// Removes the exchanges from one position to another one. All places of the conversation end at [`LONGEST_LOG`]: some may lie
/// beyond its length, and nothing is to be left.
pub(super) fn exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> rusqlite::Result<()> {
    let (first, last) = (place(number, first), place(number, last));
    connection.prepare_cached("DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2")?.execute([first, last])?;
    Ok(())
}

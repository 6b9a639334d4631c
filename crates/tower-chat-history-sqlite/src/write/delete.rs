//! Removing a conversation.

use rusqlite::Connection;
use tower_chat_history_core::ConversationId;

use crate::{
    error::Failure,
    job::Request,
    read::{LONGEST_LOG, Log},
    stats::Counters,
};

pub(crate) struct DeleteConversation {
    pub(crate) id: ConversationId,
}

impl Request for DeleteConversation {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(()) };
        Ok(conversation(connection, &log)?)
    }
}

/// Removes everything of a conversation, by hand and not by foreign keys, which would cost a look-up with each append.
pub(super) fn conversation(connection: &Connection, log: &Log) -> rusqlite::Result<()> {
    exchanges(connection, log, 0, LONGEST_LOG)?;
    connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([log.id])?;
    connection.prepare_cached("DELETE FROM conversation WHERE id = ?1")?.execute([log.id])?;
    Ok(())
}

/// Removes the exchanges from one position to another one. All places of the conversation end at [`LONGEST_LOG`]: some may lie
/// beyond its length, and nothing is to be left.
pub(super) fn exchanges(connection: &Connection, log: &Log, first: u64, last: u64) -> rusqlite::Result<()> {
    let (first, last) = (log.place(first), log.place(last));
    connection.prepare_cached("DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2")?.execute([first, last])?;
    Ok(())
}

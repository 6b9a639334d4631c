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
        let (first, last) = (log.place(0), log.place(LONGEST_LOG));
        // By hand and not by foreign keys, which would cost a look-up with each append. All places of the conversation, also
        // beyond its length: nothing of it may be left.
        connection.prepare_cached("DELETE FROM exchange WHERE place BETWEEN ?1 AND ?2")?.execute([first, last])?;
        connection.prepare_cached("DELETE FROM compaction WHERE conversation = ?1")?.execute([log.id])?;
        connection.prepare_cached("DELETE FROM conversation WHERE id = ?1")?.execute([log.id])?;
        Ok(())
    }
}

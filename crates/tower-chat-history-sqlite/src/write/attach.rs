//! Storing attachments.

use rusqlite::{Connection, OptionalExtension, params};
use tower_chat_history_core::{Attachment, AttachmentKey, ConversationId, Incarnation, Seq, StoreError};

use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::Log,
    stats::Counters,
};

pub(crate) struct StoreAttachments {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) remove: Vec<AttachmentKey>,
    pub(crate) put: Vec<Attachment>,
}

impl Request for StoreAttachments {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;
        let next = Seq::new(log.len);
        self.put.iter().try_for_each(|attachment| attachment.check(next)).map_err(StoreError::from)?;
        for AttachmentKey { name, start } in &self.remove {
            // No attachment of a larger position is stored.
            let Ok(start) = i64::try_from(start.get()) else { continue };
            let sql = "DELETE FROM attachment WHERE conversation = ?1 AND name = ?2 AND start = ?3";
            connection.prepare_cached(sql)?.execute(params![log.id, name.as_str(), start])?;
        }
        self.put.iter().try_for_each(|attachment| put(connection, &log, attachment))
    }
}

/// Stores an attachment that was checked, unless its key is stored already.
fn put(connection: &Connection, log: &Log, attachment: &Attachment) -> Result<(), Failure> {
    // Both positions have 32 bits, because the log has no others.
    let [start, end] = [attachment.range.start, attachment.range.end].map(|seq| seq.get() as i64);
    let name = attachment.name.as_str();
    // The key is looked up first: a conflicting insertion would also return 0 rows, as one that a trigger prevents.
    let sql = "SELECT 1 FROM attachment WHERE conversation = ?1 AND name = ?2 AND start = ?3";
    let stored = connection.prepare_cached(sql)?.query_row(params![log.id, name, start], |_| Ok(())).optional()?;
    if stored.is_some() {
        return Ok(());
    }
    let sql = "INSERT INTO attachment (conversation, name, start, end, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![log.id, name, start, end, &*attachment.body];
    Ok(NotWritten::check(connection.prepare_cached(sql)?.execute(row)?)?)
}

//! Reading attachments.

use rusqlite::{Connection, Row, params};
use tower_chat_history_core::{Attachment, AttachmentName, Attachments, ConversationId, Seq};

use super::{damage::AttachmentDamage, log::Log};
use crate::{error::Failure, job::Request, stats::Counters};

pub(crate) struct ReadAttachments {
    pub(crate) id: ConversationId,
    pub(crate) names: Vec<AttachmentName>,
    /// The largest size of all data together, in bytes.
    pub(crate) limit: usize,
}

impl Request for ReadAttachments {
    type Answer = Attachments;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Attachments, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(Attachments::absent()) };
        let sql = "SELECT id, start, end, octet_length(body) FROM attachment \
                   WHERE conversation = ?1 AND name = ?2 ORDER BY start";
        let mut statement = connection.prepare_cached(sql)?;
        let (mut attachments, mut left) = (Vec::new(), self.limit);
        for name in &self.names {
            let mut rows = statement.query(params![log.id, name.as_str()])?;
            while let Some(row) = rows.next()? {
                let found = Found::from_row(row, name, log.len)?;
                // The size is checked first, so that no data is read in vain.
                let Some(rest) = left.checked_sub(found.bytes) else {
                    return Ok(Attachments::new(log.revision, attachments, true));
                };
                left = rest;
                attachments.push(found.read(connection, name)?);
            }
        }
        Ok(Attachments::new(log.revision, attachments, false))
    }
}

/// The row of an attachment, which was checked, without its data.
struct Found {
    id: i64,
    start: Seq,
    end: Seq,
    bytes: usize,
}

impl Found {
    fn from_row(row: &Row<'_>, name: &AttachmentName, len: u64) -> Result<Self, Failure> {
        let column = |index| -> Result<i64, Failure> {
            let number = row.get_ref(index)?.as_i64();
            Ok(number.map_err(|_| AttachmentDamage::Type { name: name.clone() })?)
        };
        let (id, start, end, octets) = (column(0)?, column(1)?, column(2)?, column(3)?);
        let (Ok(from), Ok(to)) = (u64::try_from(start), u64::try_from(end)) else {
            return Err(AttachmentDamage::Range { name: name.clone(), start, end, len }.into());
        };
        if from >= to || to > len {
            return Err(AttachmentDamage::Range { name: name.clone(), start, end, len }.into());
        }
        let bytes = usize::try_from(octets).ok().filter(|bytes| *bytes <= Attachment::MAX_STORED_BYTES);
        let bytes = bytes.ok_or_else(|| AttachmentDamage::Size { name: name.clone(), start, end, bytes: octets })?;
        Ok(Self { id, start: Seq::new(from), end: Seq::new(to), bytes })
    }

    fn read(&self, connection: &Connection, name: &AttachmentName) -> Result<Attachment, Failure> {
        let mut statement = connection.prepare_cached("SELECT body FROM attachment WHERE id = ?1")?;
        let mut rows = statement.query([self.id])?;
        // The row was found in the same transaction.
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let body = row.get_ref(0)?.as_blob().map_err(|_| AttachmentDamage::Type { name: name.clone() })?;
        Ok(Attachment::new(name.clone(), self.start..self.end, body))
    }
}

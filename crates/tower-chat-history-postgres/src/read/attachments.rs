//! Reading attachments.

use std::sync::Arc;

use tokio_postgres::Row;
use tower_chat_history_core::{Attachment, AttachmentName, Attachments, ConversationId, Seq, StoreError};

use super::take_head;
use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{self, Damaged, Head, count, stored},
};

pub(crate) async fn attachments(
    call: &Call,
    id: &ConversationId,
    names: &[AttachmentName],
    limit: usize,
) -> Result<Attachments, Failure> {
    let texts: Vec<&str> = names.iter().map(AttachmentName::as_str).collect();
    let rows = call.query(&call.sql.attachments, &[&id.as_str(), &texts, &stored(limit as u64)]).await;
    let mut rows = rows.map_err(|failure| rows::or_damaged_counters(id, failure))?;
    let Some(row) = take_head(&mut rows) else { return Ok(Attachments::absent()) };
    let head = Head::from_row(id, &row)?;
    let more = row.try_get("r_more")?;
    let attachments = rows.iter().map(|row| attachment(row, names, head.len)).collect::<Result<_, _>>()?;
    Ok(Attachments::new(head.revision, attachments, more))
}

/// Reads an attachment next to a log of length `len`. Only another program can have stored one that breaks a rule.
fn attachment(row: &Row, names: &[AttachmentName], len: u64) -> Result<Attachment, Failure> {
    let (number, start, end): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    // Names are numbered from one.
    let name = usize::try_from(number - 1).ok().and_then(|at| names.get(at));
    let name = name.ok_or(PostgresError::Protocol)?.clone();
    let body: Arc<[u8]> = Arc::from(row.try_get::<_, &[u8]>(3)?);
    let damaged = |damaged: Damaged| Failure::from(StoreError::backend(damaged));
    if start < 0 {
        return Err(damaged(Damaged::AttachmentStart));
    }
    let attachment = Attachment::new(name, Seq::new(count(start))..Seq::new(count(end)), body);
    attachment.check(Seq::new(len)).map_err(|error| damaged(error.into()))?;
    Ok(attachment)
}

//! Storing and removing attachments.

use tower_chat_history_core::{Attachment, AttachmentKey, ConversationId, Incarnation, Seq, StoreError};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{count, damaged_counters, stored, uuid},
};

/// The most data in one call, in bytes. PostgreSQL would refuse a statement of 1 GB and close the connection.
const MAX_BYTES: usize = 512 << 20;

/// Removes attachments, then stores others.
///
/// After a lost response, the call is repeated. Nothing shows if the first attempt was executed, because the second one
/// leaves the same attachments.
pub(crate) async fn attach(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    remove: &[AttachmentKey],
    put: &[Attachment],
) -> Result<(), Failure> {
    // The database compares the ranges with the log. A check against a log without an end finds all other faults.
    check(put, u64::MAX)?;
    let requested = put.iter().map(|attachment| attachment.body.len()).sum();
    if requested > MAX_BYTES {
        return Err(StoreError::Full { used: 0, requested, limit: MAX_BYTES }.into());
    }
    let starts = |starts: &mut dyn Iterator<Item = Seq>| starts.map(|seq| stored(seq.get())).collect::<Vec<_>>();
    let removed_names: Vec<&str> = remove.iter().map(|key| key.name.as_str()).collect();
    let removed_starts = starts(&mut remove.iter().map(|key| key.start));
    let names: Vec<&str> = put.iter().map(|attachment| attachment.name.as_str()).collect();
    let bodies: Vec<&[u8]> = put.iter().map(|attachment| &*attachment.body).collect();
    let rows = call
        .query(
            &call.sql.attach,
            &[
                &id.as_str(),
                &uuid(incarnation),
                &removed_names,
                &removed_starts,
                &names,
                &starts(&mut put.iter().map(|attachment| attachment.range.start)),
                &starts(&mut put.iter().map(|attachment| attachment.range.end)),
                &bodies,
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    match row.try_get::<_, Option<i32>>(0)? {
        None => Err(StoreError::Gone.into()),
        Some(0) => Ok(()),
        Some(1) => {
            // The core crate makes the same check and returns the error.
            check(put, count(row.try_get(1)?))?;
            Err(PostgresError::Protocol.into())
        }
        Some(2) => Err(damaged_counters(id).into()),
        Some(_) => Err(PostgresError::Protocol.into()),
    }
}

fn check(put: &[Attachment], len: u64) -> Result<(), StoreError> {
    Ok(put.iter().try_for_each(|attachment| attachment.check(Seq::new(len)))?)
}

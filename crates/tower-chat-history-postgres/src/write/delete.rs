//! Removing a conversation.

use tower_chat_history_core::ConversationId;
use uuid::Uuid;

use crate::{
    database::{Call, Lease},
    error::{Failure, PostgresError},
};

/// So often another life of the conversation is named that began meanwhile, before its row is locked.
const MAX_UNLOCKED_ATTEMPTS: usize = 3;

/// Removes a conversation.
///
/// The statement that removes names the life that it ends: it may come to be executed long after the call was answered,
/// when its connection got stuck and the call was repeated on another one.
pub(crate) async fn delete(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let rows = call.query(&call.sql.incarnation, &[&id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let mut seen: Uuid = row.try_get(0)?;
    for _ in 0..MAX_UNLOCKED_ATTEMPTS {
        let rows = call.query(&call.sql.delete, &[&id.as_str(), &seen]).await?;
        match rows.first().ok_or(PostgresError::Protocol)?.try_get(0)? {
            None => return Ok(()),
            // Another life has begun meanwhile. This call is still to end whatever there is.
            Some(other) => seen = other,
        }
    }
    delete_locked(call, id).await
}

/// Removes a conversation in whatever life it is. Others begin one after the other, each between two statements of this
/// call: so no other is to begin between the look and the removal.
///
/// Nothing is removed by a request that arrives late here: it belongs to a transaction that has had the row locked all
/// the time, or that the server has undone meanwhile since its client said nothing.
async fn delete_locked(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let mut retry = call.retry();
    loop {
        match once(call, id).await {
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            done => return done,
        }
    }
}

async fn once(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let mut transaction = call.begin().await?;
    match within(call, &mut transaction, id).await {
        // Where nobody knows whether it was done, it may be done again: this call still ends whatever there is.
        Ok(()) => Ok(transaction.commit().await?),
        Err(failure) => {
            transaction.rollback().await;
            Err(failure)
        }
    }
}

async fn within(call: &Call, transaction: &mut Lease, id: &ConversationId) -> Result<(), Failure> {
    match transaction.query(&call.sql.lock, &[&id.as_str()]).await?.first() {
        Some(row) => remove(call, transaction, row.try_get(0)?).await,
        // Somebody else removed what was there while this call waited for it.
        None => Ok(()),
    }
}

/// Removes a conversation, whose row is locked, with all that belongs to it.
pub(super) async fn remove(call: &Call, transaction: &mut Lease, conversation: i64) -> Result<(), Failure> {
    for statement in [&call.sql.remove_log, &call.sql.remove_compactions, &call.sql.remove_conversation] {
        transaction.query(statement, &[&conversation]).await?;
    }
    Ok(())
}

//! Deleting a conversation.

use tower_chat_history_core::ConversationId;

use super::erase::bar;
use crate::{
    database::{Call, Lease},
    error::{Failure, PostgresError},
    sql::Changes,
};

/// The number of attempts without a lock. Each fails if another incarnation has begun in between.
const MAX_UNLOCKED_ATTEMPTS: usize = 3;

/// Deletes a conversation, after it has recorded that.
///
/// The second statement names the incarnation that it ends. If a connection stalls and the call is repeated on another
/// one, the first attempt may be executed long after the call returned.
pub(crate) async fn delete(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let Some(mut seen) = bar(call, id.as_str()).await? else { return Ok(()) };
    for _ in 0..MAX_UNLOCKED_ATTEMPTS {
        let rows = call.query(&call.sql.delete, &[&id.as_str(), &seen]).await?;
        match rows.first().ok_or(PostgresError::Protocol)?.try_get(0)? {
            None => return Ok(()),
            // Another incarnation has begun. This call must still end whichever one exists.
            Some(other) => seen = other,
        }
    }
    delete_locked(call, id).await
}

/// Deletes a conversation in any incarnation. The row is locked first, so that no other call begins a new incarnation
/// between two statements of this call.
///
/// A request that arrives late deletes nothing: its transaction either still holds the lock, or was rolled back by the
/// server because its client was silent.
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
        // If it is unknown whether the commit took effect, deleting may be repeated: this call ends any incarnation.
        Ok(()) => Ok(transaction.commit().await?),
        Err(failure) => {
            transaction.rollback().await;
            Err(failure)
        }
    }
}

async fn within(call: &Call, transaction: &mut Lease, id: &ConversationId) -> Result<(), Failure> {
    match transaction.query(&call.sql.lock, &[&id.as_str()]).await?.first() {
        Some(row) => remove(call, transaction, &[row.try_get(0)?]).await,
        // Another call deleted the conversation while this one waited for the lock.
        None => Ok(()),
    }
}

/// Deletes all rows of conversations whose rows are locked.
pub(super) async fn remove(call: &Call, transaction: &mut Lease, conversations: &[i64]) -> Result<(), Failure> {
    let Changes { remove_logs, remove_compactions, remove_conversations, .. } = &call.sql.change;
    for change in [remove_logs, remove_compactions, remove_conversations] {
        transaction.query(change, &[&conversations]).await?;
    }
    Ok(())
}

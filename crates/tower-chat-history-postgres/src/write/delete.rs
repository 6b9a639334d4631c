//! Removing a conversation.

use tower_chat_history_core::ConversationId;
use uuid::Uuid;

use crate::{PostgresError, database::Call, error::Failure};

/// How often another life of the conversation is removed that began meanwhile.
const TRIES: usize = 16;

/// Removes a conversation.
///
/// The statement that removes names the life that it ends: it may come to be executed long after the call was answered,
/// when its connection got stuck and the call was repeated on another one.
pub(crate) async fn delete(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let rows = call.query(&call.sql.incarnation, &[&id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let mut seen: Uuid = row.try_get(0)?;
    for _ in 0..TRIES {
        let rows = call.query(&call.sql.delete, &[&id.as_str(), &seen]).await?;
        match rows.first().ok_or(PostgresError::Protocol)?.try_get(0)? {
            None => return Ok(()),
            // Another life has begun meanwhile. This call is still to end whatever there is.
            Some(other) => seen = other,
        }
    }
    Err(PostgresError::Changing.into())
}

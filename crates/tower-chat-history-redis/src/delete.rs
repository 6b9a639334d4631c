//! Removing a conversation.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    call::Shared,
    error::{Busy, Misunderstood},
    rewrite::TRIES,
    scripts,
};

/// Removes a conversation's keys. The server takes them apart in the background.
///
/// What is sent names the life that it ends: it may come to the server long after the call was answered, when the first try got
/// stuck on the way and another one was made.
pub(crate) async fn delete(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let mut seen = shared.state(id).await?;
    for _ in 0..TRIES {
        let call = shared.call(&scripts::DELETE, id).bytes(&seen);
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "deleted" => return Ok(()),
            // Another life has begun meanwhile. This call is still to end whatever there is.
            "changed" => seen = reply.optional_bytes()?.unwrap_or_default(),
            _ => return Err(Misunderstood::error()),
        }
    }
    Err(StoreError::unavailable(Busy))
}

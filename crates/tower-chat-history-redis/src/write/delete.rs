//! Deleting a conversation.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{call::Shared, contention::ContentionRetry, error::UnexpectedReply, scripts};

/// Deletes a conversation's keys. The server frees them in the background.
///
/// The command names the incarnation that it ends. If its connection stalls and the call is repeated on another one, it
/// may be executed long after the call returned.
pub(crate) async fn delete(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let mut seen = shared.state(id).await?;
    // `has_ended`: a log that the script found during this call has been deleted. The state that was read first does
    // not count, because a lagging server may have returned a log that was deleted long before.
    let (mut was_there, mut has_ended) = (false, false);
    let mut retry = ContentionRetry::new();
    loop {
        let call = shared.call(&scripts::DELETE, id).bytes(&seen);
        let mut reply = shared.run(&call).await?;
        let found = match reply.word.as_str() {
            "deleted" => return Ok(()),
            "changed" => reply.optional_bytes()?.unwrap_or_default(),
            _ => return Err(UnexpectedReply::error()),
        };
        // Another incarnation has begun. This call must end that one too, if it has attempts left.
        has_ended |= was_there && log_of(&found) != log_of(&seen);
        (seen, was_there) = (found, true);
        match retry.again().await {
            Ok(()) => {}
            // Another call deleted the log that the script found. The current log began after that, so the deletion is
            // done.
            Err(_) if has_ended => return Ok(()),
            Err(busy) => return Err(busy),
        }
    }
}

/// Returns the part of a state that all incarnations of one log share: the time of its first append (see `state.lua`).
fn log_of(state: &[u8]) -> Option<&[u8]> {
    state.get(12..18)
}

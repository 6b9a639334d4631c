//! Removing a conversation.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{call::Shared, error::Misunderstood, rounds::Rounds, scripts};

/// Removes a conversation's keys. The server takes them apart in the background.
///
/// What is sent names the life that it ends: it may come to the server long after the call was answered, when the first try got
/// stuck on the way and another one was made.
pub(crate) async fn delete(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let mut seen = shared.state(id).await?;
    // The first look may find a life that was over long before: a server that is behind answers it too.
    let (mut was_there, mut has_ended) = (false, false);
    let mut rounds = Rounds::new();
    loop {
        let call = shared.call(&scripts::DELETE, id).bytes(&seen);
        let mut reply = shared.run(&call).await?;
        let found = match reply.word.as_str() {
            "deleted" => return Ok(()),
            "changed" => reply.optional_bytes()?.unwrap_or_default(),
            _ => return Err(Misunderstood::error()),
        };
        // Another life has begun meanwhile. This call is still to end whatever there is, if it gets to it.
        has_ended |= was_there && log_of(&found) != log_of(&seen);
        (seen, was_there) = (found, true);
        match rounds.again().await {
            Ok(()) => {}
            // The log that a script found during this call is gone: what is there by now was begun after that.
            Err(_) if has_ended => return Ok(()),
            Err(busy) => return Err(busy),
        }
    }
}

/// The part of a state that all lives of one log have in common: the moment of its first append (see `state.lua`).
fn log_of(state: &[u8]) -> Option<&[u8]> {
    state.get(12..18)
}

//! Deleting a conversation.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    call::Shared,
    error::UnexpectedReply,
    registry::{self, Forgotten, Slot, Stamp},
    scripts,
};

/// Records the deletion, deletes the conversation's keys, and removes its name. The server frees the keys in the
/// background.
///
/// Only a conversation that was registered before the deletion is deleted. If the command is executed long after the
/// call returned, it spares a conversation that was created in between.
pub(crate) async fn delete(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let mut before = registry::bar_id(shared, id).await?;
    if let Some(later) = delete_before(shared, id, before).await? {
        // The conversation seems to have begun during this call. If the registry lost its clock, it may be older. If
        // the second attempt finds a later one again, the one that was found here does not exist any more.
        before = registry::stamp(shared, Slot::of(id), later).await?;
        delete_before(shared, id, before).await?;
    }
    registry::forget(shared, &[Forgotten { id, before }]).await
}

/// Deletes the conversation if it was registered before the stamp. Otherwise returns the stamp of its registration.
async fn delete_before(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<Option<Stamp>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::DELETE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "deleted" => Ok(None),
        "later" => reply.number().map(|stamp| Some(Stamp(stamp))),
        _ => Err(UnexpectedReply::error()),
    }
}

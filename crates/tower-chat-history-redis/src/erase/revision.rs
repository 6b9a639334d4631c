//! Erasing a conversation that has not changed.

use tower_chat_history_core::{ByStore, ConversationId, Removed, Revision, StoreError};

use super::{SYSTEM, numbers};
use crate::{
    call::Shared,
    error::UnexpectedReply,
    registry::{self, Forgotten, Slot, Stamp},
    scripts,
};

/// Erases the conversation if it has this revision, then removes its name.
pub(crate) async fn erase_if(
    shared: &Shared,
    id: &ConversationId,
    revision: Revision,
) -> Result<Option<Removed>, StoreError> {
    let before = registry::stamp(shared, Slot::of(id), Stamp::NONE).await?;
    let incarnation = revision.incarnation();
    let call = shared.call(&scripts::ERASE_IF, id).number(before.0).bytes(incarnation.as_bytes());
    let mut reply = shared.run(&call.number(revision.version()).number(revision.first().get())).await?;
    match reply.word.as_str() {
        "erased" => {
            let removed = numbers::read(&reply.text()?)?;
            match registry::forget(shared, &[Forgotten { id, before }]).await {
                Ok(()) => Ok(Some(removed)),
                Err(error) => Err(error.after_erasing(ByStore::of(SYSTEM, removed))),
            }
        }
        "other" => Ok(None),
        _ => Err(UnexpectedReply::error()),
    }
}

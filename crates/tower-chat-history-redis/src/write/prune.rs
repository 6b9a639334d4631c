//! Removing the beginning of a log.

use tower_chat_history_core::{Compaction, ConversationId, Derived, Incarnation, PruneTo, Pruned, StoreError};

use super::{remaining::RemainingCompactions, sweep::sweep};
use crate::{call::Shared, contention::ContentionRetry, error::UnexpectedReply, scripts};

pub(crate) async fn prune(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    derived: Derived,
) -> Result<Pruned, StoreError> {
    let fresh = Incarnation::random();
    let (word, number) = match keep {
        PruneTo::From(from) => ("from", from.get()),
        PruneTo::LastTurns(turns) => ("turns", turns as u64),
        PruneTo::LastMessages(messages) => ("messages", messages as u64),
        // A newer core crate has added a variant that this store does not know. Nothing is removed.
        _ => return Err(UnexpectedReply::error()),
    };
    let mut retry = ContentionRetry::new();
    loop {
        let remaining = match derived {
            Derived::Keep => None,
            Derived::Erase => Some(RemainingCompactions::read(shared, id, Compaction::without_derived).await?),
        };
        let call = shared.call(&scripts::PRUNE, id).bytes(incarnation.as_bytes()).text(word).number(number);
        let call = call.text(if remaining.is_some() { "erase" } else { "keep" }).bytes(fresh.as_bytes());
        let call = match &remaining {
            Some(remaining) => remaining.add_to(call.number(remaining.changes)),
            None => call.text(""),
        };
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "again" => retry.again().await?,
            "pruned" => {
                let revision = reply.revision()?;
                let removed = reply.number()?;
                // The log begins at its new position now. The removed exchanges are deleted from the lists before the
                // call returns, and so are the erased recalled messages.
                sweep(shared, id).await?;
                return Ok(Pruned::new(revision, removed));
            }
            _ => return Err(UnexpectedReply::error()),
        }
    }
}

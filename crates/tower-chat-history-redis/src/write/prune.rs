//! Removing the beginning of a log.

use tower_chat_history_core::{ConversationId, Derived, Incarnation, PruneTo, Pruned, StoreError};

use super::sweep::{sweep, sweep_if_gone};
use crate::{call::Shared, error::UnexpectedReply, scripts};

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
    let derived = match derived {
        Derived::Keep => "keep",
        Derived::Erase => "erase",
    };
    let call = shared.call(&scripts::PRUNE, id).bytes(incarnation.as_bytes()).text(word).number(number);
    let done = shared.run(&call.text(derived).bytes(fresh.as_bytes())).await;
    let mut reply = sweep_if_gone(shared, id, done).await?;
    if reply.word != "pruned" {
        return Err(UnexpectedReply::error());
    }
    let revision = reply.revision()?;
    let removed = reply.number()?;

    // The log begins at its new position now. The removed exchanges are deleted from the lists before the call returns,
    // and so are the erased recalled messages.
    sweep(shared, id).await?;
    Ok(Pruned::new(revision, removed))
}

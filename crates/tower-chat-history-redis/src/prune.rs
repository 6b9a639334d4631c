//! Removing the beginning of a log.

use tower_chat_history_core::{Compaction, ConversationId, Derived, Incarnation, PruneTo, Pruned, StoreError};

use crate::{call::Shared, error::Misunderstood, rewrite::Rewritten, rounds::Rounds, scripts, sweep::sweep};

pub(crate) async fn prune(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    traces: Derived,
) -> Result<Pruned, StoreError> {
    let fresh = Incarnation::random();
    let (word, number) = match keep {
        PruneTo::From(from) => ("from", from.get()),
        PruneTo::LastTurns(turns) => ("turns", turns as u64),
        PruneTo::LastMessages(messages) => ("messages", messages as u64),
        // A kind that a newer core has and this store does not know: nothing is removed.
        _ => return Err(Misunderstood::error()),
    };
    let mut rounds = Rounds::new();
    loop {
        let rewritten = match traces {
            Derived::Keep => None,
            Derived::Erase => Some(Rewritten::read(shared, id, Compaction::without_traces).await?),
        };
        let call = shared.call(&scripts::PRUNE, id).bytes(incarnation.as_bytes()).text(word).number(number);
        let call = call.text(if rewritten.is_some() { "remove" } else { "leave" }).bytes(fresh.as_bytes());
        let call = match &rewritten {
            Some(rewritten) => rewritten.add_to(call.number(rewritten.changes)),
            None => call.text(""),
        };
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "again" => rounds.again().await?,
            "pruned" => {
                let revision = reply.revision(id)?;
                let removed = reply.number()?;
                // The log begins there by now. What is left of the text goes before the caller is told so.
                sweep(shared, id).await?;
                return Ok(Pruned::new(revision, removed));
            }
            _ => return Err(Misunderstood::error()),
        }
    }
}

//! Removing the end of a log.

use tower_chat_history_core::{ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use crate::{call::Shared, error::Misunderstood, rewrite::Rewritten, rounds::Rounds, scripts, sweep::sweep};

pub(crate) async fn truncate(
    shared: &Shared,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
) -> Result<Truncated, StoreError> {
    let fresh = Incarnation::random();
    let mut rounds = Rounds::new();
    loop {
        let rewritten = Rewritten::read(shared, id, |stored| stored.truncated_to(from.get())).await?;
        let (seen, incarnation) = (rewritten.revision, expect.incarnation());
        let call = shared.call(&scripts::TRUNCATE, id);
        let call = call.bytes(incarnation.as_bytes()).owned(expect.version().to_string()).number(from.get());
        let call = rewritten.add_to(call.bytes(fresh.as_bytes()).number(rewritten.changes));
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "again" => rounds.again().await?,
            "whole" => return Ok(Truncated::new(Some(reply.revision(id)?), 0)),
            // What was to be removed whole was there a moment ago and is gone: by this very call, whose first answer got lost, or
            // by somebody else, and then just after this.
            "absent" if seen.has_same_end(expect) && from <= seen.first() => {
                return Ok(Truncated::new(None, seen.version().saturating_sub(seen.first().get())));
            }
            "absent" => return Err(StoreError::Gone),
            "emptied" => return Ok(Truncated::new(None, reply.number()?)),
            "refused" => {
                Expect::Exactly(expect).check(reply.optional_revision(id)?)?;
                return Err(Misunderstood::error());
            }
            "truncated" => {
                let revision = reply.revision(id)?;
                // The log is cut by now. What is left of the text goes before the caller is told so.
                sweep(shared, id).await?;
                return Ok(Truncated::new(Some(revision), expect.version().saturating_sub(from.get())));
            }
            _ => return Err(Misunderstood::error()),
        }
    }
}

//! Removing the end of a log.

use tower_chat_history_core::{ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use super::{remaining::RemainingCompactions, sweep::sweep};
use crate::{
    call::Shared,
    contention::ContentionRetry,
    error::UnexpectedReply,
    registry::{self, Forgotten, Stamp},
    scripts,
};

/// Removes the end of a log. A truncation that removes the whole log is a deletion, which the registry records before.
pub(crate) async fn truncate(
    shared: &Shared,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
) -> Result<Truncated, StoreError> {
    let (fresh, mut recorded) = (Incarnation::random(), None);
    let mut retry = ContentionRetry::new();
    loop {
        let remaining = RemainingCompactions::read(shared, id, |stored| stored.truncated_to(from.get())).await?;
        let (seen, incarnation) = (remaining.revision, expect.incarnation());
        let call = shared.call(&scripts::TRUNCATE, id);
        let call = call.bytes(incarnation.as_bytes()).owned(expect.version().to_string()).number(from.get());
        let call = call.bytes(fresh.as_bytes()).number(remaining.changes);
        let call = call.owned(recorded.map(|Stamp(stamp)| stamp.to_string()).unwrap_or_default());
        let call = remaining.add_to(call);
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "again" => retry.again().await?,
            "record" => recorded = Some(registry::bar_id(shared, id).await?),
            "whole" => return Ok(Truncated::new(Some(reply.revision()?), 0)),
            // This call removes the whole log, which existed when the call began and is gone now. Either this call
            // removed it and its first response was lost, or another call removed it.
            "absent" if seen.has_same_end(expect) && from <= seen.first() => {
                return Ok(Truncated::new(None, seen.version().saturating_sub(seen.first().get())));
            }
            "absent" => return Err(StoreError::Gone),
            "emptied" => {
                let removed = reply.number()?;
                if let Some(before) = recorded {
                    // A name that is not removed now is removed later.
                    registry::forget(shared, &[Forgotten { id, before }]).await.ok();
                }
                return Ok(Truncated::new(None, removed));
            }
            "refused" => {
                Expect::Exactly(expect).check(reply.optional_revision()?)?;
                return Err(UnexpectedReply::error());
            }
            "truncated" => {
                let revision = reply.revision()?;
                // The log ends at its new position now. The removed exchanges are deleted from the lists before the
                // call returns.
                sweep(shared, id).await?;
                return Ok(Truncated::new(Some(revision), expect.version().saturating_sub(from.get())));
            }
            _ => return Err(UnexpectedReply::error()),
        }
    }
}

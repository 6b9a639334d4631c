//! Removing the end of a log.

use tower_chat_history_core::{Compact, ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use super::{
    compact,
    sweep::{sweep, sweep_if_gone},
};
use crate::{
    call::{Shared, call_name},
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
    keep: Option<Compact>,
) -> Result<Truncated, StoreError> {
    let incarnation = expect.incarnation();
    let fresh = Incarnation::random();
    let name = call_name();
    let mut recorded = None;
    loop {
        let call = shared.call(&scripts::TRUNCATE, id);
        let call = call.bytes(incarnation.as_bytes()).owned(expect.version().to_string()).number(from.get());
        let call = call.bytes(fresh.as_bytes());
        let call = call.owned(recorded.map(|Stamp(stamp)| stamp.to_string()).unwrap_or_default()).text(&name);
        let call = match &keep {
            Some(keep) => compact::add_to(call, keep),
            None => call,
        };
        let done = shared.run(&call).await;
        let mut reply = sweep_if_gone(shared, id, done).await?;
        match reply.word.as_str() {
            "record" if recorded.is_none() => recorded = Some(registry::bar_id(shared, id).await?),
            "whole" => return Ok(Truncated::new(Some(reply.revision()?), 0)),
            "emptied" => {
                let removed = reply.number()?;
                if let Some(before) = recorded {
                    // A name that is not removed now is removed later.
                    registry::forget(shared, &[Forgotten { id, before }]).await.ok();
                }
                return Ok(Truncated::new(None, removed));
            }
            "refused" => {
                let refused = Expect::Exactly(expect).check(reply.optional_revision()?);
                sweep_if_gone(shared, id, refused).await?;
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

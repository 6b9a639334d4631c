//! Removing the end or the beginning of a log: in one step, which takes effect at once, and then from the keys, in
//! small steps.
//!
//! # Decisions
//!
//! - **Removed values are hidden first and deleted later**: a script blocks the server for all conversations, so it
//!   must not grow with the log.

use tower_chat_history_core::{
    Compact, ConversationId, Derived, Expect, Incarnation, PruneTo, Pruned, Revision, Seq, StoreError, Truncated,
};

use super::replace::add_compaction;
use crate::{
    call::{Shared, call_name},
    error::{Contended, UnexpectedReply},
    registry::{self, NameRemoval, Stamp},
    scripts,
};

/// The number of exchanges that the server removes in one step, which takes about a millisecond.
const STEP_EXCHANGES: u64 = 1_000;

/// The number of times that the rest may grow during a sweep. It grows if another call truncates or prunes the log. If
/// it grows more often, the call fails.
const MAX_GROWTHS: usize = 16;

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
        let call = call.bytes(incarnation.as_bytes()).owned(expect.version().to_string());
        let call = call.number(from.get()).bytes(fresh.as_bytes());
        let call = call.owned(recorded.map(|Stamp(stamp)| stamp.to_string()).unwrap_or_default()).text(&name);
        let call = add_compaction(call, keep.as_ref());

        let done = shared.run(&call).await;
        let mut reply = sweep_if_gone(shared, id, done).await?;
        match reply.word.as_str() {
            "record" if recorded.is_none() => recorded = Some(registry::bar_id(shared, id).await?),
            "whole" => return Ok(Truncated::new(Some(reply.revision()?), 0)),
            "emptied" => {
                let removed = reply.number()?;
                if let Some(before) = recorded {
                    // A name that is not removed now is removed later.
                    registry::forget(shared, &[NameRemoval { id, before }]).await.ok();
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

/// Removes the beginning of a log.
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
    let call = call.text(derived).bytes(fresh.as_bytes());
    let done = shared.run(&call).await;
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

/// Removes what is left, before a call is refused with `Gone`: the call may be the repetition of one whose caller left
/// before everything was removed.
async fn sweep_if_gone<T>(shared: &Shared, id: &ConversationId, done: Result<T, StoreError>) -> Result<T, StoreError> {
    if matches!(done, Err(StoreError::Gone)) {
        sweep(shared, id).await?;
    }
    done
}

/// Removes in small steps the elements that a truncation or a prune has cut off the log.
pub(super) async fn sweep(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let call = shared.call(&scripts::SWEEP, id).number(STEP_EXCHANGES);
    let mut left = u64::MAX;
    let mut growths = 0;
    while left > 0 {
        let mut reply = shared.run(&call).await?;
        if reply.word != "swept" {
            return Err(UnexpectedReply::error());
        }

        let now = reply.number()?;
        growths += usize::from(now >= left);
        if growths > MAX_GROWTHS {
            return Err(StoreError::unavailable(Contended));
        }
        left = now;
    }
    Ok(())
}

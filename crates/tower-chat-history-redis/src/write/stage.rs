//! Bringing the exchanges of a log to the server of its copy.

use tower_chat_history_core::{ConversationId, ForkTo, Incarnation, StoreError};

use crate::{call::Shared, error::UnexpectedReply, scripts};

/// The largest number of exchanges of one step. A server takes a few milliseconds for them.
const STEP_EXCHANGES: u64 = 500;

/// The largest size of their messages, in bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Copies the exchanges to these keys in the slot of the copy, in small steps. Returns how the copy takes them, or why
/// there is nothing to take (see `scripts/fork.lua`). The keys expire if the caller leaves.
///
/// All exchanges are those of the log at the time of the last step: within an incarnation, an exchange never changes.
/// If the log is pruned between two steps, the fork begins again.
pub(super) async fn stage(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
    keys: &[String],
) -> Result<&'static str, StoreError> {
    let mut next = 0;
    let mut first = None;
    loop {
        let call = shared.call(&scripts::READ, id).number(next).number(STEP_EXCHANGES).number(STEP_BYTES);
        let mut reply = shared.run_limited(call).await?;
        match reply.word.as_str() {
            "page" => {}
            "absent" => return Ok("gone"),
            _ => return Err(UnexpectedReply::error()),
        }
        let revision = reply.revision()?;
        if revision.incarnation() != incarnation {
            return Ok("gone");
        }
        if *first.get_or_insert(revision.first()) != revision.first() {
            return Ok("again");
        }
        let from = reply.number()?;
        let end = to.before.get().min(revision.version());
        if from >= end {
            return Ok("nothing");
        }

        let mut exchanges = reply.stored(id, from)?;
        exchanges.truncate(usize::try_from(end - from).unwrap_or(usize::MAX));
        let call = shared.call(&scripts::STAGE, &to.id).in_place_of_keys(keys.to_vec());
        let call = call.bytes(incarnation.as_bytes()).number(revision.first().get()).number(from);
        let call = exchanges.iter().fold(call, |call, exchange| {
            let call = call.bytes(&exchange.record).bytes(&exchange.entry);
            call.bytes(&exchange.recalled).bytes(&exchange.provenance)
        });
        let mut reply = shared.run(&call).await?;
        match reply.word.as_str() {
            "staged" => next = from + exchanges.len() as u64,
            "again" => return Ok("again"),
            "full" => return Err(reply.full(exchanges.iter().map(|exchange| exchange.record.len()).sum())?),
            _ => return Err(UnexpectedReply::error()),
        }
        if next >= end {
            return Ok("RENAME");
        }
    }
}

/// Deletes staged exchanges that did not become the copy with this id.
pub(super) async fn unstage(shared: &Shared, id: &ConversationId, keys: Vec<String>) -> Result<(), StoreError> {
    shared.run(&shared.call(&scripts::UNSTAGE, id).in_place_of_keys(keys)).await.map(drop)
}

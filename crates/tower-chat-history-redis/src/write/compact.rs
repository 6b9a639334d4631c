//! Storing a compaction.

use tower_chat_history_core::{Compact, CompactOutcome, ConversationId, Incarnation, Profile, StoreError};

use crate::{
    call::{Call, Shared, call_name},
    error::UnexpectedReply,
    reply::Reply,
    scripts,
};

pub(crate) async fn compact(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    compact: Compact,
) -> Result<CompactOutcome, StoreError> {
    let name = call_name();
    let call = shared.call(&scripts::COMPACT, id).bytes(incarnation.as_bytes()).text(&name);
    let mut reply = shared.run(&add_to(call, &compact)).await?;
    if reply.word == "full" {
        let derived = compact.derived.as_ref().map_or(0, |derived| derived.len());
        return Err(reply.full(compact.state.len() + derived)?);
    }
    let kind = std::mem::take(&mut reply.word);
    outcome(&kind, &mut reply, id, &compact.profile)
}

/// Adds a compaction to a script's arguments (see `scripts/compaction.lua`).
pub(super) fn add_to<'a>(call: Call<'a>, compact: &'a Compact) -> Call<'a> {
    let call = call.text(compact.profile.as_str()).owned(compact.replaces.get().to_string());
    let call = call.number(compact.window_start.get()).number(u64::from(compact.derived.is_some()));
    call.bytes(&compact.state).bytes(compact.derived.as_deref().unwrap_or_default())
}

/// Reads the outcome of a compaction.
pub(super) fn outcome(
    kind: &str,
    reply: &mut Reply,
    id: &ConversationId,
    profile: &Profile,
) -> Result<CompactOutcome, StoreError> {
    match kind {
        "compacted" => Ok(CompactOutcome::Stored(reply.compaction_version()?)),
        "kept" => reply.compaction(id, profile).map(CompactOutcome::Kept),
        _ => Err(UnexpectedReply::error()),
    }
}

//! Replacing a compaction or the labels, if they are what the caller knows.

use tower_chat_history_core::{
    Compact, CompactOutcome, ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion, Profile, Seq,
    StoreError,
};

use crate::{
    call::{Call, Shared, call_name},
    error::UnexpectedReply,
    read,
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
    let mut reply = shared.run(&add_compaction(call, Some(&compact))).await?;
    if reply.word == "full" {
        let derived = compact.derived.as_ref().map_or(0, |derived| derived.len());
        return Err(reply.full(compact.state.len() + derived)?);
    }

    let kind = std::mem::take(&mut reply.word);
    compaction_outcome(&kind, &mut reply, id, &compact.profile)
}

/// Adds a compaction to a script's arguments, if there is one (see `scripts/write.lua`).
pub(super) fn add_compaction<'a>(call: Call<'a>, compact: Option<&'a Compact>) -> Call<'a> {
    let Some(compact) = compact else { return call };
    let call = call.text(compact.profile.as_str()).owned(compact.replaces.get().to_string());
    let call = call.number(compact.window_start.get()).number(u64::from(compact.derived.is_some()));
    call.bytes(&compact.state).bytes(compact.derived.as_deref().unwrap_or_default())
}

/// Reads the outcome of a compaction.
pub(super) fn compaction_outcome(
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

pub(crate) async fn set_labels(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    replaces: LabelsVersion,
    labels: &Labels,
) -> Result<LabelsOutcome, StoreError> {
    let name = call_name();
    let record = labels.encode();
    let call = shared.call(&scripts::LABEL, id).bytes(incarnation.as_bytes()).owned(replaces.get().to_string());
    let call = call.text(&name).text(&record);

    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "labeled" => Ok(LabelsOutcome::Stored(LabelsVersion::new(reply.number()?))),
        "kept" => {
            let stored = reply.optional_bytes()?.unwrap_or_default();
            let (labels, version) = read::labels(&stored, id, Seq::FIRST)?;
            Ok(LabelsOutcome::Kept(labels, version))
        }
        "full" => Err(reply.full(record.len())?),
        _ => Err(UnexpectedReply::error()),
    }
}

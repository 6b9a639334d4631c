//! Storing a compaction.

use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, ConversationId, Cut, Incarnation, Profile, Seq, StoreError, Summary,
};

use crate::{
    call::{Call, Shared, call_name},
    error::{Damaged, UnexpectedReply},
    reply::{Reply, corrupt_compaction, positions_of},
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
    let call = add_to(call, &compact)?;
    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "cut" => outcome("cut", &mut reply, id, &compact.profile),
        "kept" => outcome("kept", &mut reply, id, &compact.profile),
        "full" => {
            let requested = compact.cut.summary.as_ref().map_or(0, |summary| summary.text.len());
            Err(reply.full(requested)?)
        }
        _ => Err(refused(&mut reply, id, Some(&compact))),
    }
}

/// Adds a compaction to a script's arguments.
pub(super) fn add_to<'a>(call: Call<'a>, compact: &'a Compact) -> Result<Call<'a>, StoreError> {
    let cut = &compact.cut;
    let positions = positions_of(cut);
    let covers_window = if cut.covers_to() > cut.window_start { "1" } else { "0" };
    let call = call.text(compact.profile.as_str()).owned(compact.replaces.get().to_string());
    let call = positions.into_iter().fold(call, |call, position| call.number(position));
    // The version is not in the record.
    let record = compact.stored_as(CompactionVersion::NONE).encode().map_err(StoreError::backend)?;
    Ok(call.text(covers_window).owned(record))
}

/// Reads the outcome of a compaction.
pub(super) fn outcome(
    kind: &str,
    reply: &mut Reply,
    id: &ConversationId,
    profile: &Profile,
) -> Result<CompactOutcome, StoreError> {
    match kind {
        "cut" => Ok(CompactOutcome::Stored(reply.compaction_version()?)),
        "kept" => reply.compaction(id, profile).map(CompactOutcome::Kept),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads the refusal of a compaction. The script decides, and [`Cut::check`] finds the broken rule from the same facts.
pub(super) fn refused(reply: &mut Reply, id: &ConversationId, compact: Option<&Compact>) -> StoreError {
    let Some(compact) = compact else { return UnexpectedReply::error() };
    match reply.word.as_str() {
        "compaction" => corrupt_compaction(id, &compact.profile, Box::new(Damaged)),
        "broken" => broken_rule(reply, id, compact).unwrap_or_else(|error| error),
        _ => UnexpectedReply::error(),
    }
}

/// Returns the error for the broken rule, or the error that the stored compaction cannot be read: its positions, which
/// the script compared, then mean nothing.
fn broken_rule(reply: &mut Reply, id: &ConversationId, compact: &Compact) -> Result<StoreError, StoreError> {
    let mut position = || reply.number().map(Seq::new);
    let mut stored = Cut::window_from(position()?);
    (stored.rounds_start, stored.cleared_before, stored.recalled_from) = (position()?, position()?, position()?);
    (stored.reasoning_from, stored.encrypted_from) = (position()?, position()?);
    let covers = position()?;
    if covers > Seq::FIRST {
        stored.summary = Some(Summary::new("", covers));
    }
    let len = reply.number()?;
    let opens = reply.number()? == 1;
    if let Some(compaction) = reply.compaction(id, &compact.profile)? {
        let fits = compaction.cut.check(None, len, |_| true);
        fits.map_err(|error| corrupt_compaction(id, &compact.profile, Box::new(error)))?;
    }
    Ok(compact.cut.check(Some(&stored), len, |_| opens).map_or_else(StoreError::from, |()| UnexpectedReply::error()))
}

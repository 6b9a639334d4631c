//! Removing names.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tower_chat_history_core::{ConversationId, StoreError};

use super::{Slot, Stamp};
use crate::{call::Shared, error::UnexpectedReply, scripts};

/// A name to remove, if it was registered before the stamp.
pub(crate) struct Forgotten<'a> {
    pub(crate) id: &'a ConversationId,
    pub(crate) before: Stamp,
}

/// Removes the names of conversations that do not exist. Calls that registered them before the stamps cannot create the
/// conversations any more.
pub(crate) async fn forget(shared: &Shared, names: &[Forgotten<'_>]) -> Result<(), StoreError> {
    let mut by_slot = BTreeMap::<Slot, Vec<&Forgotten<'_>>>::new();
    for name in names {
        by_slot.entry(Slot::of(name.id)).or_default().push(name);
    }
    let mut calls = Vec::with_capacity(by_slot.len());
    for (slot, names) in by_slot {
        let call = slot.call(shared, &scripts::FORGET);
        calls.push(names.iter().fold(call, |call, name| call.text(name.id.as_str()).number(name.before.0)));
    }
    let replies = try_join_all(calls.iter().map(|call| shared.run(call))).await?;
    let is_done = replies.iter().all(|reply| reply.word == "forgotten");
    if is_done { Ok(()) } else { Err(UnexpectedReply::error()) }
}

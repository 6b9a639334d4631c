//! Removing names.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tower_chat_history_core::{ConversationId, StoreError};

use super::{RegisteredName, Slot, Stamp};
use crate::{
    call::{Call, Shared},
    error::UnexpectedReply,
    scripts,
};

/// The largest number of names that one call of the script removes.
const MAX_NAMES: usize = 1_000;

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
    run_all(shared, &calls).await
}

/// Removes names that are no ids, unless they were registered again.
pub(crate) async fn forget_foreign(shared: &Shared, names: &[RegisteredName]) -> Result<(), StoreError> {
    let mut by_slot = BTreeMap::<Slot, Vec<&RegisteredName>>::new();
    for name in names {
        by_slot.entry(name.slot).or_default().push(name);
    }
    let mut calls = Vec::new();
    for (slot, names) in by_slot {
        // A script takes a limited number of arguments.
        for names in names.chunks(MAX_NAMES) {
            let call = slot.call(shared, &scripts::FORGET);
            calls.push(names.iter().fold(call, |call, name| call.bytes(&name.name).number(name.registered.0 + 1)));
        }
    }
    run_all(shared, &calls).await
}

async fn run_all(shared: &Shared, calls: &[Call<'_>]) -> Result<(), StoreError> {
    let replies = try_join_all(calls.iter().map(|call| shared.run(call))).await?;
    let is_done = replies.iter().all(|reply| reply.word == "forgotten");
    if is_done { Ok(()) } else { Err(UnexpectedReply::error()) }
}

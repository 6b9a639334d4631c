//! Stamps, which order the registrations and erasures of a slot, and the epochs among them.

use futures_util::future::try_join_all;
use tower_chat_history_core::{ConversationId, Epoch, Prefix, StoreError};

use super::Slot;
use crate::{call::Shared, error::UnexpectedReply, reply::Reply, scripts};

/// A stamp of a slot's registry (see `scripts/registry.lua`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// The stamp before all others.
    pub(crate) const NONE: Self = Self(0);
}

/// Returns a stamp that is greater than those of all earlier registrations of the slot, and greater than `above`.
pub(crate) async fn stamp(shared: &Shared, slot: Slot, above: Stamp) -> Result<Stamp, StoreError> {
    let reply = shared.run(&slot.call(shared, &scripts::STAMP).number(above.0)).await?;
    read_stamp(reply)
}

/// Records the deletion of a conversation. Returns the epoch as a stamp.
pub(crate) async fn bar_id(shared: &Shared, id: &ConversationId) -> Result<Stamp, StoreError> {
    let call = Slot::of(id).call(shared, &scripts::BAR).number(0).owned(format!("={id}"));
    read_stamp(shared.run(&call).await?)
}

/// Records an erasure of everything under a prefix, in all slots.
pub(crate) async fn bar(shared: &Shared, under: &Prefix) -> Result<(), StoreError> {
    let erased = format!("{under}/");
    let calls = Slot::all().map(|slot| slot.call(shared, &scripts::BAR).number(0).text(&erased)).collect::<Vec<_>>();
    for reply in try_join_all(calls.iter().map(|call| shared.run(call))).await? {
        read_stamp(reply)?;
    }
    Ok(())
}

/// Returns the epoch of a conversation's slot.
pub(crate) async fn epoch(shared: &Shared, id: &ConversationId) -> Result<Epoch, StoreError> {
    let mut reply = shared.run(&Slot::of(id).call(shared, &scripts::EPOCH)).await?;
    match reply.word.as_str() {
        "epoch" => reply.number().map(Epoch::new),
        _ => Err(UnexpectedReply::error()),
    }
}

fn read_stamp(mut reply: Reply) -> Result<Stamp, StoreError> {
    match reply.word.as_str() {
        "stamp" => reply.number().map(Stamp),
        _ => Err(UnexpectedReply::error()),
    }
}

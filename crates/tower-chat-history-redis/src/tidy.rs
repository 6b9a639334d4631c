//! Removing the names of conversations that do not exist.

use std::collections::HashSet;

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    call::Shared,
    error::UnexpectedReply,
    read,
    registry::{Forgotten, MIN_AGE, NamesPage, Slot, Stamp, forget, stamp},
    scripts,
};

/// Removes the name of a conversation if there is no such conversation.
pub(crate) async fn drop_name(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let before = stamp(shared, Slot::of(id), Stamp::NONE).await?;
    let reply = shared.run(&shared.call(&scripts::FENCE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "fenced" => forget(shared, &[Forgotten { id, before }]).await,
        "exists" => Ok(()),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Removes the old names whose conversations do not exist. The others count as old later.
pub(crate) async fn forget_expired(shared: &Shared, stale: &[(ConversationId, Stamp)]) -> Result<(), StoreError> {
    let Some((first, _)) = stale.first() else { return Ok(()) };
    let exist = read::describe_all(shared, stale.iter().map(|(id, _)| id).collect()).await;
    let (mut gone, mut touch) = (Vec::new(), Slot::of(first).call(shared, &scripts::TOUCH));
    for ((id, stamp), found) in stale.iter().zip(exist) {
        match found {
            // A conversation that cannot be read may exist.
            Ok(Some(_)) | Err(_) => touch = touch.text(id.as_str()).number(stamp.0),
            Ok(None) => gone.push(Forgotten { id, before: Stamp(stamp.0 + 1) }),
        }
    }
    if gone.len() < stale.len() {
        shared.run(&touch).await?;
    }
    forget(shared, &gone).await
}

/// Removes the names of a page whose conversations were absent when they were read after the page. It leaves younger
/// names, whose conversations may be about to be created.
pub(crate) async fn forget_absent(
    shared: &Shared,
    page: &NamesPage,
    absent: &HashSet<&ConversationId>,
) -> Result<(), StoreError> {
    let age = u64::try_from(MIN_AGE.as_micros()).unwrap_or(u64::MAX);
    let old = page.names.iter().filter_map(|name| {
        let is_old = |stamp: &Stamp| *stamp != Stamp::NONE && page.time(&name.id).saturating_sub(stamp.0) > age;
        let stamp = name.registered.filter(is_old)?;
        absent.contains(&name.id).then_some(Forgotten { id: &name.id, before: Stamp(stamp.0 + 1) })
    });
    let old: Vec<_> = old.collect();
    if old.is_empty() { Ok(()) } else { forget(shared, &old).await }
}

//! Erasing the conversations under a prefix.

use tower_chat_history_core::{ByStore, ConversationId, Cursor, ErasedPage, Prefix, Removed, StoreError};

use super::numbers;
use crate::{
    call::Shared,
    concurrent,
    error::UnexpectedReply,
    registry::{self, Forgotten, Slot, Stamp},
    scripts,
    store::SYSTEM,
};

/// Erases the conversations whose names are on the next page of the registry, then removes the names.
pub(crate) async fn erase(
    shared: &Shared,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<ErasedPage, StoreError> {
    let page = registry::names(shared, under, after, limit, true).await?;
    let calls = page.names.iter().map(|name| erase_one(shared, &name.id, page.stamp(&name.id))).collect();
    let (mut removed, mut forgotten) = (Removed::default(), Vec::with_capacity(page.names.len()));
    for (name, erased) in page.names.iter().zip(concurrent::all(calls).await) {
        let (numbers, before) = erased?;
        removed += numbers;
        forgotten.push(Forgotten { id: &name.id, before });
    }
    removed.names = registry::forget(shared, &forgotten).await?;
    Ok(ErasedPage::new(ByStore::of(SYSTEM, removed), page.next))
}

/// Erases a conversation that was registered before the stamp. Returns what was removed, and the stamp before which no
/// registration is valid any more.
async fn erase_one(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<(Removed, Stamp), StoreError> {
    if let Ok(removed) = erase_before(shared, id, before).await? {
        return Ok((removed, before));
    }
    // See `delete`: the conversation began during this call, or the registry lost its clock.
    let later = registry::stamp(shared, Slot::of(id), before).await?;
    let erased = erase_before(shared, id, later).await?;
    Ok((erased.unwrap_or_default(), later))
}

/// Erases the conversation if it was registered before the stamp. Otherwise returns the stamp of its registration.
async fn erase_before(
    shared: &Shared,
    id: &ConversationId,
    before: Stamp,
) -> Result<Result<Removed, Stamp>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::ERASE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "erased" => numbers::read(&reply.text()?).map(Ok),
        "later" => Ok(Err(Stamp(reply.number()?))),
        _ => Err(UnexpectedReply::error()),
    }
}

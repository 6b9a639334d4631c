//! Counting what is stored under a prefix.

use tower_chat_history_core::{ByStore, ConversationId, Prefix, Removed, StoreError};

use super::numbers;
use crate::{call::Shared, concurrent, error::UnexpectedReply, registry, scripts, store::SYSTEM};

/// The number of names that are read at a time.
const NAMES: usize = 1_000;

pub(crate) async fn count(shared: &Shared, under: &Prefix) -> Result<ByStore, StoreError> {
    let (mut total, mut after) = (Removed::default(), None);
    loop {
        let page = registry::names(shared, under, after.as_ref(), NAMES, false).await?;
        let calls = page.names.iter().map(|name| count_one(shared, &name.id)).collect();
        for counted in concurrent::all(calls).await {
            total += counted?;
        }
        total.names += page.names.iter().filter(|name| name.registered.is_some()).count() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(ByStore::of(SYSTEM, total));
        }
    }
}

async fn count_one(shared: &Shared, id: &ConversationId) -> Result<Removed, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::COUNT, id)).await?;
    match reply.word.as_str() {
        "absent" => Ok(Removed::default()),
        "counted" => numbers::read(&reply.text()?),
        _ => Err(UnexpectedReply::error()),
    }
}

//! Counting what is stored under a prefix.

use tower_chat_history_core::{ByStore, ConversationId, Prefix, Removed, StoreError};

use super::{SYSTEM, numbers};
use crate::{
    call::Shared,
    concurrent,
    error::UnexpectedReply,
    registry::{self, NamesFor},
    scripts,
};

/// The number of names that are read at a time.
const NAMES: usize = 1_000;

pub(crate) async fn count(shared: &Shared, under: &Prefix) -> Result<ByStore, StoreError> {
    let (mut total, mut after) = (Removed::default(), None);
    loop {
        let page = registry::names(shared, under, after.as_ref(), NAMES, NamesFor::Count).await?;
        let calls = page.names.iter().map(|name| count_one(shared, &name.id)).collect();
        for (name, counted) in page.names.iter().zip(concurrent::all(calls).await) {
            match counted? {
                Some(numbers) => total += numbers,
                None => total.names += u64::from(name.registered.is_some()),
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(ByStore::of(SYSTEM, total));
        }
    }
}

async fn count_one(shared: &Shared, id: &ConversationId) -> Result<Option<Removed>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::COUNT, id)).await?;
    match reply.word.as_str() {
        "absent" => Ok(None),
        "counted" => numbers::read(&reply.text()?).map(Some),
        _ => Err(UnexpectedReply::error()),
    }
}

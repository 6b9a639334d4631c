//! Deleting, erasing and counting conversations.

use tower_chat_history_core::{ByStore, ConversationId, Cursor, ErasedPage, Prefix, Removed, Revision, StoreError};

use crate::{
    call::{self, Shared},
    error::UnexpectedReply,
    registry::{self, NameRemoval, NamesFor, Slot, Stamp},
    scripts,
};

/// The name of the store's system, which is also its name in receipts.
pub(crate) const SYSTEM: &str = "redis";

/// The number of names that a count reads at a time.
const COUNTED_NAMES: usize = 1_000;

/// Records the deletion, deletes the conversation's keys, and removes its name. The server frees the keys in the
/// background.
///
/// Only a conversation that was registered before the deletion is deleted. If the command is executed long after the
/// call returned, it spares a conversation that was created in between.
pub(crate) async fn delete(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let mut before = registry::bar_id(shared, id).await?;
    if let Some(later) = delete_before(shared, id, before).await? {
        // The conversation seems to have begun during this call. If the registry lost its clock, it may be older. If
        // the second attempt finds a later one again, the one that was found here does not exist any more.
        before = registry::stamp(shared, Slot::of(id), later).await?;
        delete_before(shared, id, before).await?;
    }
    registry::forget(shared, &[NameRemoval { id, before }]).await
}

/// Deletes the conversation if it was registered before the stamp. Otherwise returns the stamp of its registration.
async fn delete_before(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<Option<Stamp>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::DELETE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "deleted" => Ok(None),
        "later" => reply.number().map(|stamp| Some(Stamp(stamp))),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Erases the conversations whose names are on the next page of the registry, then removes the names.
pub(crate) async fn erase(
    shared: &Shared,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<ErasedPage, StoreError> {
    let page = registry::names(shared, under, after, limit, NamesFor::Erase).await?;
    let calls = page.names.iter().map(|name| erase_one(shared, &name.id, page.stamp(&name.id))).collect();
    let erasures = call::all(calls).await;

    let mut removed = Removed::default();
    let mut names = Vec::with_capacity(page.names.len());
    let mut failed = None;
    for (name, erasure) in page.names.iter().zip(erasures) {
        // All calls have run. The numbers of those that succeeded are not found again.
        let (erasure, before) = match erasure {
            Ok(erasure) => erasure,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };

        match erasure {
            Erasure::Conversation(numbers) => removed += numbers,
            // A deletion that is running removes the name itself.
            Erasure::Absent { fence } if name.registered.is_some_and(|registered| fence <= registered) => {
                removed.names += 1;
            }
            Erasure::Absent { .. } | Erasure::Later(_) => {}
        }
        names.push(NameRemoval { id: &name.id, before });
    }

    let forgotten = registry::forget(shared, &names).await;
    if forgotten.is_err() {
        // A repetition finds the names again, and counts them.
        removed.names = 0;
    }

    let removed = ByStore::of(SYSTEM, removed);
    match failed.or(forgotten.err()) {
        Some(error) => Err(error.after_erasing(removed)),
        None => Ok(ErasedPage::new(removed, page.next)),
    }
}

/// The result of erasing one conversation.
enum Erasure {
    Conversation(Removed),
    /// There is no such conversation. It was last deleted at the stamp.
    Absent {
        fence: Stamp,
    },
    /// The conversation was registered later, at the stamp.
    Later(Stamp),
}

/// Erases a conversation. Returns the result, and the stamp before which no registration is valid any more.
async fn erase_one(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<(Erasure, Stamp), StoreError> {
    match erase_before(shared, id, before).await? {
        // See `delete`: the conversation began during this call, or the registry lost its clock.
        Erasure::Later(later) => {
            let before = registry::stamp(shared, Slot::of(id), later).await?;
            Ok((erase_before(shared, id, before).await?, before))
        }
        erased => Ok((erased, before)),
    }
}

/// Erases the conversation if it was registered before the stamp.
async fn erase_before(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<Erasure, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::ERASE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "erased" => match reply.text()?.as_str() {
            "" => Ok(Erasure::Absent { fence: Stamp(reply.number()?) }),
            numbers => read_numbers(numbers).map(Erasure::Conversation),
        },
        "later" => Ok(Erasure::Later(Stamp(reply.number()?))),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Erases the conversation if it has this revision, then removes its name.
pub(crate) async fn erase_if(
    shared: &Shared,
    id: &ConversationId,
    revision: Revision,
) -> Result<Option<Removed>, StoreError> {
    let before = registry::stamp(shared, Slot::of(id), Stamp::NONE).await?;
    let incarnation = revision.incarnation();
    let call = shared.call(&scripts::ERASE_IF, id).number(before.0).bytes(incarnation.as_bytes());
    let call = call.number(revision.version()).number(revision.first().get());

    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "erased" => {
            let removed = read_numbers(&reply.text()?)?;
            match registry::forget(shared, &[NameRemoval { id, before }]).await {
                Ok(()) => Ok(Some(removed)),
                Err(error) => Err(error.after_erasing(ByStore::of(SYSTEM, removed))),
            }
        }
        "other" => Ok(None),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Counts what is stored under a prefix.
pub(crate) async fn count(shared: &Shared, under: &Prefix) -> Result<ByStore, StoreError> {
    let mut total = Removed::default();
    let mut after = None;
    loop {
        let page = registry::names(shared, under, after.as_ref(), COUNTED_NAMES, NamesFor::Count).await?;
        let calls = page.names.iter().map(|name| count_one(shared, &name.id)).collect();
        for (name, counted) in page.names.iter().zip(call::all(calls).await) {
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
        "counted" => read_numbers(&reply.text()?).map(Some),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads the numbers of one conversation (see `counted` in `scripts/erase.lua`).
fn read_numbers(numbers: &str) -> Result<Removed, StoreError> {
    let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
    let numbers = numbers.map_err(|_| UnexpectedReply::error())?;
    let [exchanges, bytes, exchange_ids, compactions, summaries, labels] = *numbers.as_slice() else {
        return Err(UnexpectedReply::error());
    };

    let mut removed = Removed::default();
    removed.conversations = 1;
    removed.exchanges = exchanges;
    removed.bytes = bytes;
    removed.exchange_ids = exchange_ids;
    removed.compactions = compactions;
    removed.summaries = summaries;
    removed.labels = labels;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_conversation_are_read() {
        let removed = read_numbers("5 300 6 2 1 1").unwrap();
        assert_eq!((removed.conversations, removed.exchanges, removed.bytes, removed.exchange_ids), (1, 5, 300, 6));
        assert_eq!((removed.compactions, removed.summaries, removed.labels), (2, 1, 1));
        for wrong in ["", "5", "a b c d e f", "5 300 6 2 1 1 0"] {
            assert!(read_numbers(wrong).is_err(), "{wrong}");
        }
    }
}

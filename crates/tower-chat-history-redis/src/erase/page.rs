//! Erasing the conversations under a prefix.

use tower_chat_history_core::{ByStore, ConversationId, Cursor, ErasedPage, Prefix, Removed, StoreError};

use super::{SYSTEM, numbers};
use crate::{
    call::Shared,
    concurrent,
    error::UnexpectedReply,
    registry::{self, Forgotten, NamesFor, Slot, Stamp},
    scripts,
};

/// Erases the conversations whose names are on the next page of the registry, then removes the names.
pub(crate) async fn erase(
    shared: &Shared,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<ErasedPage, StoreError> {
    let page = registry::names(shared, under, after, limit, NamesFor::Erase).await?;
    let calls = page.names.iter().map(|name| erase_one(shared, &name.id, page.stamp(&name.id))).collect();
    let (mut removed, mut names, mut failed) = (Removed::default(), Vec::with_capacity(page.names.len()), None);
    for (name, erased) in page.names.iter().zip(concurrent::all(calls).await) {
        // All calls have run. The numbers of those that succeeded are not found again.
        let (erased, before) = match erased {
            Ok(erased) => erased,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        let found = match erased {
            Erased::Conversation(numbers) => {
                removed += numbers;
                true
            }
            // A deletion that is running removes the name itself.
            Erased::Absent { fence } => name.registered.is_none_or(|registered| fence > registered),
            Erased::Later(_) => true,
        };
        removed.names += u64::from(!found);
        names.push(Forgotten { id: &name.id, before });
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
enum Erased {
    Conversation(Removed),
    /// There is no such conversation. It was last deleted at the stamp.
    Absent {
        fence: Stamp,
    },
    /// The conversation was registered later, at the stamp.
    Later(Stamp),
}

/// Erases a conversation. Returns the result, and the stamp before which no registration is valid any more.
async fn erase_one(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<(Erased, Stamp), StoreError> {
    match erase_before(shared, id, before).await? {
        // See `delete`: the conversation began during this call, or the registry lost its clock.
        Erased::Later(later) => {
            let before = registry::stamp(shared, Slot::of(id), later).await?;
            Ok((erase_before(shared, id, before).await?, before))
        }
        erased => Ok((erased, before)),
    }
}

/// Erases the conversation if it was registered before the stamp.
async fn erase_before(shared: &Shared, id: &ConversationId, before: Stamp) -> Result<Erased, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::ERASE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "erased" => match reply.text()?.as_str() {
            "" => Ok(Erased::Absent { fence: Stamp(reply.number()?) }),
            numbers => numbers::read(numbers).map(Erased::Conversation),
        },
        "later" => Ok(Erased::Later(Stamp(reply.number()?))),
        _ => Err(UnexpectedReply::error()),
    }
}

//! Listing conversations, and removing the names of those that do not exist.

use std::collections::HashSet;

use tower_chat_history_core::{ConversationId, Cursor, Listing, Prefix, StoreError};

use crate::{
    call::Shared,
    error::LayoutError,
    read,
    registry::{self, MIN_AGE, Name, NameRemoval, NamesFor, NamesPage, Slot, Stamp, forget},
    scripts,
};

/// Lists the conversations whose names are on the next page of the registry. A name without a conversation is left out,
/// and is removed if it is old. Conversations that cannot be read are named.
pub(crate) async fn list(
    shared: &Shared,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Listing, StoreError> {
    let page = registry::names(shared, under, after, limit, NamesFor::List).await?;
    let found = read::describe_all(shared, page.names.iter().map(|name| &name.id).collect()).await;

    let mut listing = Listing::new(Vec::with_capacity(found.len()), page.next.clone());
    let mut absent = HashSet::new();
    for (name, found) in page.names.iter().zip(found) {
        match found.transpose() {
            Some(Err(error)) if !is_of_conversation(&error) => return Err(error),
            Some(entry) => listing.push(name.id.clone(), entry),
            None => drop(absent.insert(&name.id)),
        }
    }

    // The names can be removed later as well, so a listing that cannot write succeeds.
    forget_absent(shared, &page, &absent).await.ok();
    Ok(listing)
}

/// Returns `true` if an error concerns one conversation only: it is damaged, or a newer version of this store wrote it.
fn is_of_conversation(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt { .. } => true,
        StoreError::Backend { source } => matches!(source.downcast_ref(), Some(LayoutError::Newer { .. })),
        _ => false,
    }
}

/// Removes the names of a page whose conversations were absent when they were read after the page. It leaves younger
/// names, whose conversations may be about to be created.
async fn forget_absent(shared: &Shared, page: &NamesPage, absent: &HashSet<&ConversationId>) -> Result<(), StoreError> {
    let age = u64::try_from(MIN_AGE.as_micros()).unwrap_or(u64::MAX);
    let mut old = Vec::new();
    for Name { id, registered } in &page.names {
        let Some(stamp) = registered.filter(|stamp| *stamp != Stamp::NONE) else { continue };
        if absent.contains(id) && page.time(id).saturating_sub(stamp.0) > age {
            old.push(NameRemoval { id, before: Stamp(stamp.0 + 1) });
        }
    }

    if old.is_empty() { Ok(()) } else { forget(shared, &old).await }
}

/// Removes the old names whose conversations do not exist. The others count as old later.
pub(crate) async fn forget_expired(shared: &Shared, stale: &[(ConversationId, Stamp)]) -> Result<(), StoreError> {
    let Some((first, _)) = stale.first() else { return Ok(()) };
    let exist = read::describe_all(shared, stale.iter().map(|(id, _)| id).collect()).await;

    let mut gone = Vec::new();
    let mut touch = Slot::of(first).call(shared, &scripts::TOUCH);
    for ((id, stamp), found) in stale.iter().zip(exist) {
        match found {
            // A conversation that cannot be read may exist.
            Ok(Some(_)) | Err(_) => touch = touch.text(id.as_str()).number(stamp.0),
            Ok(None) => gone.push(NameRemoval { id, before: Stamp(stamp.0 + 1) }),
        }
    }

    if gone.len() < stale.len() {
        shared.run(&touch).await?;
    }
    forget(shared, &gone).await
}

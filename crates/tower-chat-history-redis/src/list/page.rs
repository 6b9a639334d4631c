//! Listing conversations.

use std::collections::HashSet;

use tower_chat_history_core::{Cursor, Listing, Prefix, StoreError};

use crate::{
    call::Shared,
    error::NewerLayout,
    read,
    registry::{self, NamesFor},
    tidy,
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
    let (mut listing, mut absent) = (Listing::new(Vec::with_capacity(found.len()), page.next.clone()), HashSet::new());
    for (name, found) in page.names.iter().zip(found) {
        match found.transpose() {
            Some(Err(error)) if !is_of_conversation(&error) => return Err(error),
            Some(entry) => listing.push(name.id.clone(), entry),
            None => drop(absent.insert(&name.id)),
        }
    }
    // The names can be removed later as well, so a listing that cannot write succeeds.
    tidy::forget_absent(shared, &page, &absent).await.ok();
    Ok(listing)
}

/// Returns `true` if an error concerns one conversation only: it is damaged, or a newer version of this store wrote it.
fn is_of_conversation(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt { .. } => true,
        StoreError::Backend { source } => source.is::<NewerLayout>(),
        _ => false,
    }
}

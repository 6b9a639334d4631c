//! Listing conversations.

use std::collections::HashSet;

use tower_chat_history_core::{Cursor, Listing, Prefix, StoreError};

use crate::{
    call::Shared,
    read,
    registry::{self, NamesFor},
    tidy,
};

/// Lists the conversations whose names are on the next page of the registry. A name without a conversation is left out,
/// and is removed if it is old.
pub(crate) async fn list(
    shared: &Shared,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Listing, StoreError> {
    let page = registry::names(shared, under, after, limit, NamesFor::List).await?;
    let found = read::describe_all(shared, page.names.iter().map(|name| &name.id).collect()).await;
    let (mut conversations, mut absent) = (Vec::with_capacity(found.len()), HashSet::new());
    for (name, found) in page.names.iter().zip(found) {
        match found? {
            Some(listed) => conversations.push(listed),
            None => drop(absent.insert(&name.id)),
        }
    }
    // The names can be removed later as well, so a listing that cannot write succeeds.
    tidy::forget_absent(shared, &page, &absent).await.ok();
    Ok(Listing::new(conversations, page.next))
}

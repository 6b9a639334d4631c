//! Listings and erasures over all stores of a list.

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, FailedConversation, Incarnation, Labels, LabelsOutcome,
    LabelsVersion, List, Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::{Route as _, RoutedStore, StoreList};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, F> List for RoutedStore<StoreList<S, F>>
where
    S: List + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    /// Merges the pages of all stores. A conversation in a store that the closure does not choose for it is left out,
    /// because no other call finds it. A page counts the foreign keys of all stores up to their own cursors, so a key
    /// may count on more than one page. No key is left out.
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let limit = limit.max(1);
        let pages = try_join_all(self.0.stores.iter().map(|(_, store)| store.list(under, after, limit))).await?;
        // Beyond the first cursor, a store may have conversations that its page lacks.
        let known_to = pages.iter().filter_map(|page| page.next.clone()).min_by(order);
        let is_known = |id: &ConversationId| known_to.as_ref().is_none_or(|end| id.as_str() <= end.last().as_str());
        let mut merged = Listing::default();
        merged.foreign_keys = pages.iter().map(|page| page.foreign_keys).sum();
        let mut found = Vec::new();
        for (store, page) in pages.into_iter().enumerate() {
            let entries = page.into_entries().into_iter().map(|entry| (id_of(&entry).clone(), entry));
            // The copies that are left out do not count. Otherwise, a page could end between two copies.
            found.extend(entries.filter(|(id, _)| is_known(id) && self.0.index(id) == store));
        }
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_cut = found.len() > limit;
        found.truncate(limit);
        merged.next = if is_cut { found.last().map(|(last, _)| Cursor::after(last.clone())) } else { known_to };
        for (_, entry) in found {
            match entry {
                Ok(listed) => merged.conversations.push(listed),
                Err(damaged) => merged.damaged.push(damaged),
            }
        }
        Ok(merged)
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.0.route(id).describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.0.route(id).set_labels(id, incarnation, replaces, labels).await
    }
}

/// Erases in all stores, also conversations in a store that the closure does not choose for them. The numbers have the
/// names of the stores in the list.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, F> Erase for RoutedStore<StoreList<S, F>>
where
    S: Erase + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        try_join_all(self.0.stores.iter().map(|(_, store)| store.bar(under))).await?;
        Ok(())
    }

    /// Each store erases a part of the page. The next page begins where the first of them stopped. The others find
    /// nothing there up to their own cursors.
    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let each = (limit / self.0.stores.len()).max(1);
        let pages = join_all(self.0.stores.iter().map(|(_, store)| store.erase(under, after, each))).await;
        let (mut removed, mut next, mut failed) = (ByStore::default(), None, None);
        for ((name, _), page) in self.0.stores.iter().zip(pages) {
            let numbers = match page {
                Ok(page) => {
                    next = [next, page.next].into_iter().flatten().min_by(order);
                    page.removed
                }
                Err(error) => {
                    let (numbers, error) = error.into_erased();
                    failed.get_or_insert(error);
                    numbers
                }
            };
            removed += ByStore::of(name, numbers.total());
        }
        match failed {
            Some(error) => Err(error.after_erasing(removed)),
            None => Ok(ErasedPage::new(removed, next)),
        }
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.0.route(id).erase_if(id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let counts = self.0.stores.iter().map(|(_, store)| store.count(under));
        let mut counted = ByStore::default();
        for ((name, _), count) in self.0.stores.iter().zip(try_join_all(counts).await?) {
            counted += ByStore::of(name, count.total());
        }
        Ok(counted)
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        let mut all = Scrubbed::default();
        for (name, store) in &self.0.stores {
            let Scrubbed { done, left, .. } = store.scrub().await?;
            all.done.extend(done.into_iter().map(|step| format!("{name}: {step}")));
            all.left.extend(left.into_iter().map(|place| format!("{name}: {place}")));
        }
        Ok(all)
    }
}

fn id_of(entry: &Result<Listed, FailedConversation>) -> &ConversationId {
    entry.as_ref().map_or_else(|damaged| &damaged.id, |listed| &listed.id)
}

fn order(one: &Cursor, other: &Cursor) -> std::cmp::Ordering {
    one.last().as_str().cmp(other.last().as_str())
}

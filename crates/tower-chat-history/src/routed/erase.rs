//! Listings and erasures over all stores of a list.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
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
    /// because no other call finds it.
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let StoreList { stores, .. } = &self.0;
        let pages = try_join_all(stores.iter().map(|(_, store)| store.list(under, after, limit))).await?;
        // Beyond the first cursor, a store may have conversations that its page lacks.
        let known_to = pages.iter().filter_map(|page| page.next.clone()).min_by(order);
        let is_known = |listed: &Listed| known_to.as_ref().is_none_or(|end| listed.id.as_str() <= end.last().as_str());
        let chosen = pages.into_iter().enumerate().flat_map(|(index, page)| {
            page.conversations.into_iter().filter(move |listed| self.0.index(&listed.id) == index)
        });
        let mut merged: Vec<Listed> = chosen.filter(is_known).collect();
        merged.sort_unstable_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
        let is_cut = merged.len() > limit;
        merged.truncate(limit);
        let last = || merged.last().map(|last| Cursor::after(last.id.clone()));
        let next = if is_cut { last().or(after.cloned()) } else { known_to };
        Ok(Listing::new(merged, next))
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

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let mut erased = ErasedPage::default();
        for (name, store) in &self.0.stores {
            let page = store.erase(under, after, limit).await?;
            erased.removed += ByStore::of(name, page.removed.total());
            // The next page begins where the first of the stores stopped. The others find nothing there.
            erased.next = [erased.next, page.next].into_iter().flatten().min_by(order);
        }
        Ok(erased)
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

fn order(one: &Cursor, other: &Cursor) -> std::cmp::Ordering {
    one.last().as_str().cmp(other.last().as_str())
}

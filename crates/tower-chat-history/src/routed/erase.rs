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
        let Merged { found, next } = self.0.merged(under, after, limit).await?;
        let chosen = found.into_iter().filter(|(store, listed)| self.0.index(&listed.id) == *store);
        Ok(Listing::new(chosen.map(|(_, listed)| listed).collect(), next))
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
        let Merged { found, next } = self.0.merged(under, after, limit).await?;
        // On the last page, a store without conversations may have data that belongs to none.
        let least = usize::from(next.is_none() && found.len() < limit);
        let mut removed = ByStore::default();
        let mut stopped = None;
        for (index, (name, store)) in self.0.stores.iter().enumerate() {
            let conversations = found.iter().filter(|(store, _)| *store == index).count().max(least);
            if conversations > 0 {
                let page = store.erase(under, after, conversations).await?;
                removed += ByStore::of(name, page.removed.total());
                stopped = [stopped, page.next].into_iter().flatten().min_by(order);
            }
        }
        // A store may stop early. The next page begins where the first one stopped.
        let next = [next, stopped].into_iter().flatten().min_by(order);
        Ok(ErasedPage::new(removed, next))
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

/// The first conversations of all stores, in the order of their ids.
struct Merged {
    /// Each with the index of its store.
    found: Vec<(usize, Listed)>,
    /// The place at which the next page begins.
    next: Option<Cursor>,
}

impl<S: List, F: Sync> StoreList<S, F> {
    async fn merged(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Merged, StoreError> {
        let pages = try_join_all(self.stores.iter().map(|(_, store)| store.list(under, after, limit))).await?;
        // Beyond the first cursor, a store may have conversations that its page lacks.
        let known_to = pages.iter().filter_map(|page| page.next.clone()).min_by(order);
        let is_known = |listed: &Listed| known_to.as_ref().is_none_or(|end| listed.id.as_str() <= end.last().as_str());
        let all = pages.into_iter().enumerate();
        let all = all.flat_map(|(store, page)| page.conversations.into_iter().map(move |listed| (store, listed)));
        let mut found: Vec<(usize, Listed)> = all.filter(|(_, listed)| is_known(listed)).collect();
        found.sort_unstable_by(|(_, one), (_, other)| one.id.as_str().cmp(other.id.as_str()));
        let is_cut = found.len() > limit;
        found.truncate(limit);
        let last = || found.last().map(|(_, last)| Cursor::after(last.id.clone()));
        let next = if is_cut { last().or(after.cloned()) } else { known_to };
        Ok(Merged { found, next })
    }
}

fn order(one: &Cursor, other: &Cursor) -> std::cmp::Ordering {
    one.last().as_str().cmp(other.last().as_str())
}

//! Listings and erasures.

use async_trait::async_trait;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, HistoryStore as _, Incarnation, Labels, LabelsOutcome,
    LabelsVersion, List, Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::MemoryStore;

/// The largest number of conversations in a page, so that no call takes long.
const PAGE: usize = 256;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl List for MemoryStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let (ids, next) = self.order().page(under, after, limit.min(PAGE));
        let entry = |id: ConversationId| {
            let shard = self.shard(&id);
            // It may have been deleted in the meantime.
            let log = shard.get(&id)?;
            Some(log.listed(id.clone()))
        };
        Ok(Listing::new(ids.into_iter().filter_map(entry).collect(), next))
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        Ok(self.shard(id).get(id).map(|log| log.listed(id.clone())))
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        let mut shard = self.shard(id);
        shard.get_mut(id).ok_or(StoreError::Gone)?.set_labels(incarnation, replaces, labels, &self.shared.space)
    }
}

impl MemoryStore {
    /// Erases a conversation, if there is one and it is as expected. Returns the numbers of what was removed.
    fn erase_one(&self, id: &ConversationId, expect: impl FnOnce(Revision) -> bool) -> Option<Removed> {
        let log = {
            let mut shard = self.shard(id);
            shard.get(id).filter(|log| expect(log.revision()))?;
            self.remove(&mut shard, id)?
        };
        // The log is dropped after the lock, because dropping a long log takes time.
        Some(log.numbers())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Erase for MemoryStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.order().record(under);
        Ok(())
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let (ids, next) = self.order().page(under, after, limit.min(PAGE));
        let mut removed = Removed::default();
        ids.iter().filter_map(|id| self.erase_one(id, |_| true)).for_each(|one| removed += one);
        Ok(ErasedPage::new(ByStore::of(self.system(), removed), next))
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        Ok(self.erase_one(id, |current| current == revision))
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let (mut count, mut after) = (Removed::default(), None);
        loop {
            let (ids, next) = self.order().page(under, after.as_ref(), PAGE);
            ids.iter().filter_map(|id| Some(self.shard(id).get(id)?.numbers())).for_each(|one| count += one);
            if next.is_none() {
                return Ok(ByStore::of(self.system(), count));
            }
            after = next;
            tokio::task::yield_now().await;
        }
    }

    /// Does nothing: the store has no files.
    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        Ok(Scrubbed::default())
    }
}

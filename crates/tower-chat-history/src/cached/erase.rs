//! Listings and erasures of a cached store.

use async_trait::async_trait;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::{CachedStore, removing};

impl<S> CachedStore<S> {
    /// Removes all windows of conversations under the prefix from the cache. The store does not change.
    pub fn forget(&self, under: &Prefix) {
        self.windows.retain(|id, _| !under.contains(id));
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for CachedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.inner.list(under, after, limit).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.inner.describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.inner.set_labels(id, incarnation, replaces, labels).await
    }
}

/// An erasure removes the windows of the whole prefix from the cache when it is recorded, and after its last page, for
/// the reasons that `removing` states. Each removal looks at the whole cache, so the pages between make none.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for CachedStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.forget(under);
        self.inner.bar(under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let erased = self.inner.erase(under, after, limit).await;
        if erased.as_ref().map_or(true, |page| page.next.is_none()) {
            self.forget(under);
        }
        erased
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        removing(&self.windows, id, self.inner.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.inner.count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.inner.scrub().await
    }
}

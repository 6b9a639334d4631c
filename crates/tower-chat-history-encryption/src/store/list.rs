//! Listings and erasures of an encrypted store.

use async_trait::async_trait;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::EncryptedStore;
use crate::sealing::seal_labels;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for EncryptedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let page = self.inner.list(under, after, limit).await?;
        let mut opened = Listing::new(Vec::with_capacity(page.conversations.len()), page.next.clone());
        opened.foreign_keys = page.foreign_keys;
        for entry in page.into_entries() {
            match entry {
                Ok(listed) => match (listed.id.clone(), self.open_listed(listed).await) {
                    // The keys of the other conversations cannot be read either.
                    (_, Err(error)) if error.is_retryable() => return Err(error),
                    (id, entry) => opened.push(id, entry),
                },
                Err(damaged) => opened.damaged.push(damaged),
            }
        }
        Ok(opened)
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        match self.inner.describe(id).await? {
            Some(listed) => self.open_listed(listed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        let sealed = if labels.is_empty() { labels } else { seal_labels(&self.keys.current(id).await?, &labels)? };
        match self.inner.set_labels(id, incarnation, replaces, sealed).await? {
            LabelsOutcome::Kept(labels, version) => {
                Ok(LabelsOutcome::Kept(self.open_labels(id, &labels).await?, version))
            }
            stored @ LabelsOutcome::Stored(_) => Ok(stored),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for EncryptedStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.inner.bar(under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        self.inner.erase(under, after, limit).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.inner.erase_if(id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.inner.count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.inner.scrub().await
    }
}

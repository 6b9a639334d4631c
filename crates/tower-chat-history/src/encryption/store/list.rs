//! Listings and erasures of an encrypted store.

use async_trait::async_trait;
use futures_util::future::join_all;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::EncryptedStore;
use crate::encryption::sealing::seal_labels;

/// The number of conversations whose labels are opened side by side. Each may need a call of the vault and one of the
/// master keys.
const AT_ONCE: usize = 32;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for EncryptedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let page = self.inner.list(under, after, limit).await?;
        let mut opened = Listing::new(Vec::with_capacity(page.conversations.len()), page.next.clone());
        opened.foreign_keys = page.foreign_keys;
        opened.damaged = page.damaged;
        let mut listed = page.conversations.into_iter();
        loop {
            let opening = listed.by_ref().take(AT_ONCE).map(|listed| (listed.id.clone(), self.open_listed(listed)));
            let (ids, opening): (Vec<_>, Vec<_>) = opening.unzip();
            if ids.is_empty() {
                opened.damaged.sort_by(|one, other| one.id.cmp(&other.id));
                return Ok(opened);
            }
            for (id, entry) in ids.into_iter().zip(join_all(opening).await) {
                match entry {
                    // The keys of the other conversations cannot be read either.
                    Err(error) if error.is_unavailable() => return Err(error.into()),
                    entry => opened.push(id, entry.map_err(StoreError::from)),
                }
            }
        }
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        match self.inner.describe(id).await? {
            Some(listed) => Ok(Some(self.open_listed(listed).await?)),
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
        let sealed = if labels.is_empty() { labels } else { seal_labels(&self.current(id).await?, &labels)? };
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
        let erased = self.inner.erase(under, after, limit).await;
        self.forget_revisions(under);
        erased
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        let removed = self.inner.erase_if(id, revision).await?;
        if removed.is_some() {
            self.shared.revisions.remove(id);
        }
        Ok(removed)
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.inner.count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.inner.scrub().await
    }
}

//! Listings and erasures of a store whose calls take real time.

use async_trait::async_trait;
use tower_chat_history::store::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::remote::{Remote, with_clock_held};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for Remote<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        with_clock_held(self.0.list(under, after, limit)).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        with_clock_held(self.0.describe(id)).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        with_clock_held(self.0.set_labels(id, incarnation, replaces, labels)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for Remote<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        with_clock_held(self.0.bar(under)).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        with_clock_held(self.0.erase(under, after, limit)).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        with_clock_held(self.0.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        with_clock_held(self.0.count(under)).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        with_clock_held(self.0.scrub()).await
    }
}

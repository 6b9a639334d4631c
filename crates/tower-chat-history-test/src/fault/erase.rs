//! The listing and erasing operations of a store, each with its faults.

use async_trait::async_trait;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::{FaultStore, Op};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for FaultStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.of(Op::List).run_stages(under.as_id(), self.inner.list(under, after, limit)).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.of(Op::Describe).run_stages(Some(id), self.inner.describe(id)).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.of(Op::SetLabels).run_stages(Some(id), self.inner.set_labels(id, incarnation, replaces, labels)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for FaultStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.of(Op::Bar).run_stages(under.as_id(), self.inner.bar(under)).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        self.of(Op::Erase).run_stages(under.as_id(), self.inner.erase(under, after, limit)).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.of(Op::EraseIf).run_stages(Some(id), self.inner.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.of(Op::Count).run_stages(under.as_id(), self.inner.count(under)).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.of(Op::Scrub).run_stages(None, self.inner.scrub()).await
    }
}

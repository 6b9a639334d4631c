//! Listings and erasures of an audited store.

use async_trait::async_trait;
use tower_chat_history_core::{
    ByStore, ConversationId, Cursor, Erase, ErasedPage, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Prefix, Removed, Revision, Scrubbed, StoreError,
};

use super::{Action, AuditedStore, Subject};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for AuditedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.recorded(Action::List, Subject::Under(under.clone()), self.inner.list(under, after, limit)).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.recorded(Action::Describe, Subject::Conversation(id.clone()), self.inner.describe(id)).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.recorded(
            Action::SetLabels,
            Subject::Conversation(id.clone()),
            self.inner.set_labels(id, incarnation, replaces, labels),
        )
        .await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for AuditedStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.recorded(Action::Bar, Subject::Under(under.clone()), self.inner.bar(under)).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        self.recorded(Action::Erase, Subject::Under(under.clone()), self.inner.erase(under, after, limit)).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.recorded(Action::Erase, Subject::Conversation(id.clone()), self.inner.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.recorded(Action::Count, Subject::Under(under.clone()), self.inner.count(under)).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.recorded(Action::Scrub, Subject::Under(Prefix::all()), self.inner.scrub()).await
    }
}

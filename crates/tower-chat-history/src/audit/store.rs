//! The log of an audited store.

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page,
    Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use super::{Action, AuditedStore, Subject};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for AuditedStore<S> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.recorded(Action::Load, Subject::Conversation(id.clone()), self.inner.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.recorded(Action::Append, Subject::Conversation(id.clone()), self.inner.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.recorded(Action::Compact, Subject::Conversation(id.clone()), self.inner.compact(id, incarnation, compact))
            .await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.recorded(Action::Read, Subject::Conversation(id.clone()), self.inner.read(id, from, limit)).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.recorded(Action::Delete, Subject::Conversation(id.clone()), self.inner.delete(id)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for AuditedStore<S> {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        self.recorded(Action::Truncate, Subject::Conversation(id.clone()), self.inner.truncate(id, expect, from)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for AuditedStore<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.recorded(
            Action::Prune,
            Subject::Conversation(id.clone()),
            self.inner.prune(id, incarnation, keep, derived),
        )
        .await
    }
}

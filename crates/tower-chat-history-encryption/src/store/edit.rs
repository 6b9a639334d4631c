//! Removals of an encrypted store, which need no key.

use async_trait::async_trait;
use tower_chat_history_core::{
    ConversationId, Derived, Incarnation, Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use super::EncryptedStore;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for EncryptedStore<S> {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        self.inner.truncate(id, expect, from).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for EncryptedStore<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.inner.prune(id, incarnation, keep, derived).await
    }
}

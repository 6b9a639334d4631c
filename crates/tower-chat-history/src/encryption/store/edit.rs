//! Removals of an encrypted store. Only a truncation that carries over the text of a compaction needs a key.

use async_trait::async_trait;
use tower_chat_history_core::{
    Compact, ConversationId, Derived, Incarnation, Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate,
    Truncated,
};

use super::EncryptedStore;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for EncryptedStore<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        let sealed = match keep {
            Some(keep) => Some(self.seal_compact(id, keep).await?),
            None => None,
        };
        self.inner.truncate(id, expect, from, sealed).await
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

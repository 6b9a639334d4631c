//! A memory store whose calls are disturbed.

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore, MemoryStore, StoreError,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
};

/// The disturbance of a store's calls.
#[async_trait]
pub(super) trait Disturb: std::fmt::Debug + Send + Sync + 'static {
    /// Runs before every call but a deletion.
    async fn before(&self);

    /// Runs an append.
    async fn append(&self, inner: &MemoryStore, id: &ConversationId, append: Append) -> Result<Appended, StoreError>;
}

/// A memory store with a disturbance.
#[derive(Clone, Debug)]
pub(super) struct Disturbed<D> {
    pub(super) inner: MemoryStore,
    pub(super) disturb: D,
}

#[async_trait]
impl<D: Disturb> HistoryStore for Disturbed<D> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.disturb.before().await;
        self.inner.load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.disturb.before().await;
        self.disturb.append(&self.inner, id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.disturb.before().await;
        self.inner.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.disturb.before().await;
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

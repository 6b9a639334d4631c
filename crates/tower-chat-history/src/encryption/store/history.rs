//! The log of an encrypted store.

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, HistoryStore, Incarnation, Load, Loaded, Page, Seq,
    StoreError,
};

use super::EncryptedStore;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for EncryptedStore<S> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let profile = load.profile.clone();
        match self.inner.load(id, load).await? {
            Loaded::Window(mut window) => {
                self.remember(id, window.revision);
                self.open_all(id, &mut window.exchanges).await?;
                if let Some(compaction) = window.compaction.take() {
                    window.compaction = Some(self.open_compaction(id, &profile, compaction).await?);
                }
                Ok(Loaded::Window(window))
            }
            Loaded::Added(mut added) => {
                self.remember(id, added.revision);
                self.open_all(id, &mut added.exchanges).await?;
                Ok(Loaded::Added(added))
            }
            Loaded::AlreadyRecorded(mut recorded) => {
                self.open_all(id, std::slice::from_mut(&mut recorded)).await?;
                Ok(Loaded::AlreadyRecorded(recorded))
            }
            loaded @ (Loaded::Absent(_) | Loaded::Unchanged) => Ok(loaded),
        }
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.append_sealed(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let profile = compact.profile.clone();
        let sealed = self.seal_compact(id, compact).await?;
        let outcome = self.inner.compact(id, incarnation, sealed).await?;
        self.open_outcome(id, &profile, outcome).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let page = self.inner.read(id, from, limit).await?;
        self.open_page(id, page).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        let deleted = self.inner.delete(id).await;
        self.shared.revisions.remove(id);
        deleted
    }
}

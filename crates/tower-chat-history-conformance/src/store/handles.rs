//! Conversations in stores with optional abilities.

use std::sync::Arc;

use tower_chat_history_core::{
    ConversationId, Derived, Incarnation, Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

use super::{
    Capability, Fixture,
    support::{Chat, Must, unused_id},
};
use crate::clause;

/// A conversation that no other behavior uses, in a store that can truncate.
pub(super) struct Editable {
    pub(super) chat: Chat,
    pub(super) store: Arc<dyn Truncate>,
}

impl Editable {
    /// Chooses a conversation that does not exist yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self::at(fixture, unused_id([])).await
    }

    /// Opens the conversation with this id through a new handle.
    pub(super) async fn at(fixture: &dyn Fixture, id: ConversationId) -> Self {
        let Some(store) = fixture.open_truncate().await else { Capability::Truncate.lacking() };
        let chat = Chat { store: Arc::new(Arc::clone(&store)), id };
        Self { chat, store }
    }

    pub(super) async fn truncate(&self, expect: Revision, from: u64) -> Result<Truncated, StoreError> {
        self.store.truncate(&self.chat.id, expect, Seq::new(from)).await
    }

    /// Truncates the current log, which must succeed, and returns the revision of the remaining log.
    pub(super) async fn keep(&self, len: u64) -> Option<Revision> {
        let truncated = self.truncate(self.chat.revision().await, len).await.must("nothing changed", &clause::TRUNCATE);
        truncated.revision
    }
}

/// A conversation that no other behavior uses, in a store that can prune.
pub(super) struct Prunable {
    pub(super) chat: Chat,
    pub(super) store: Arc<dyn Prune>,
}

impl Prunable {
    /// Chooses a conversation that does not exist yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self::at(fixture, unused_id([])).await
    }

    /// Opens the conversation with this id through a new handle.
    pub(super) async fn at(fixture: &dyn Fixture, id: ConversationId) -> Self {
        let Some(store) = fixture.open_prune().await else { Capability::Prune.lacking() };
        let chat = Chat { store: Arc::new(Arc::clone(&store)), id };
        Self { chat, store }
    }

    pub(super) async fn prune(&self, incarnation: Incarnation, keep: PruneTo) -> Result<Pruned, StoreError> {
        self.store.prune(&self.chat.id, incarnation, keep, Derived::Keep).await
    }

    /// Prunes the current log, which must succeed.
    pub(super) async fn keep(&self, keep: PruneTo) -> Pruned {
        self.prune(self.chat.incarnation().await, keep).await.must("nothing changed", &clause::PRUNE)
    }

    /// Does the same and erases derived data.
    pub(super) async fn forget(&self, keep: PruneTo) -> Pruned {
        let incarnation = self.chat.incarnation().await;
        self.store.prune(&self.chat.id, incarnation, keep, Derived::Erase).await.must("nothing changed", &clause::PRUNE)
    }
}

//! Conversations in stores that can do more than all stores.

use std::sync::Arc;

use super::{
    Fixture,
    support::{Chat, unused_id},
};
use crate::{ConversationId, Incarnation, Keep, Prune, Pruned, Revision, Seq, StoreError, Traces, Truncate, Truncated};

/// A conversation that no other behaviour uses, in a store that can truncate.
pub(super) struct Editable {
    pub(super) chat: Chat,
    pub(super) store: Arc<dyn Truncate>,
}

impl Editable {
    /// A conversation that does not exist yet; `None` if the store cannot truncate.
    pub(super) async fn new(fixture: &dyn Fixture) -> Option<Self> {
        Self::at(fixture, unused_id([])).await
    }

    /// The conversation of that id through a new handle.
    pub(super) async fn at(fixture: &dyn Fixture, id: ConversationId) -> Option<Self> {
        let store = fixture.open_truncate().await?;
        let chat = Chat { store: Arc::new(Arc::clone(&store)), id };
        Some(Self { chat, store })
    }

    pub(super) async fn truncate(&self, expect: Revision, from: u64) -> Result<Truncated, StoreError> {
        self.store.truncate(&self.chat.id, expect, Seq::new(from)).await
    }

    /// Cuts the log as it is, which must succeed, and returns the revision of what stays.
    pub(super) async fn keep(&self, len: u64) -> Option<Revision> {
        let truncated = self.truncate(self.chat.revision().await, len).await.expect("nothing changed");
        truncated.revision
    }
}

/// A conversation that no other behaviour uses, in a store that can prune.
pub(super) struct Prunable {
    pub(super) chat: Chat,
    pub(super) store: Arc<dyn Prune>,
}

impl Prunable {
    /// A conversation that does not exist yet; `None` if the store cannot prune.
    pub(super) async fn new(fixture: &dyn Fixture) -> Option<Self> {
        Self::at(fixture, unused_id([])).await
    }

    /// The conversation of that id through a new handle.
    pub(super) async fn at(fixture: &dyn Fixture, id: ConversationId) -> Option<Self> {
        let store = fixture.open_prune().await?;
        let chat = Chat { store: Arc::new(Arc::clone(&store)), id };
        Some(Self { chat, store })
    }

    pub(super) async fn prune(&self, incarnation: Incarnation, keep: Keep) -> Result<Pruned, StoreError> {
        self.store.prune(&self.chat.id, incarnation, keep, Traces::Leave).await
    }

    /// Prunes the log as it is, which must succeed.
    pub(super) async fn keep(&self, keep: Keep) -> Pruned {
        self.prune(self.chat.incarnation().await, keep).await.expect("nothing changed")
    }

    /// The same without traces.
    pub(super) async fn forget(&self, keep: Keep) -> Pruned {
        let incarnation = self.chat.incarnation().await;
        self.store.prune(&self.chat.id, incarnation, keep, Traces::Remove).await.expect("nothing changed")
    }
}

//! Replacements of the encrypted forms of an audited store.

use async_trait::async_trait;
use tower_chat_history_core::{ConversationId, Exchange, Incarnation, Reseal, Seq, StoreError};

use super::{Action, AuditedStore, Subject};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Reseal> Reseal for AuditedStore<S> {
    async fn reseal(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        seq: Seq,
        from: &Exchange,
        to: Exchange,
    ) -> Result<bool, StoreError> {
        self.recorded(
            Action::Reseal,
            Subject::Conversation(id.clone()),
            self.inner.reseal(id, incarnation, seq, from, to),
        )
        .await
    }
}

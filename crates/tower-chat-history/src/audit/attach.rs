//! The attachments of an audited store.

use async_trait::async_trait;
use tower_chat_history_core::{
    Attach, Attachment, AttachmentKey, AttachmentName, Attachments, ConversationId, Incarnation, Page, Seq, StoreError,
};

use super::{Action, AuditedStore, Subject};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Attach> Attach for AuditedStore<S> {
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError> {
        self.recorded(
            Action::Attach,
            Subject::Conversation(id.clone()),
            self.inner.attach(id, incarnation, remove, put),
        )
        .await
    }

    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        self.recorded(
            Action::ReadAttachments,
            Subject::Conversation(id.clone()),
            self.inner.attachments(id, names, limit),
        )
        .await
    }

    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
        self.recorded(Action::Read, Subject::Conversation(id.clone()), self.inner.pick(id, positions)).await
    }
}

//! Copies of a conversation's log.

use super::{Conversation, smallest};
use crate::{
    compaction::Cuts,
    conversation_id::ConversationId,
    exchange::Recorded,
    labels::Labels,
    management::TARGET,
    seq::Seq,
    store::{Fork, ForkTo, Load, Loaded, StoreError},
};

impl<S: Fork + ?Sized> Conversation<'_, S> {
    /// Copies the exchanges before position `at` into another conversation of the same store, which must not exist
    /// yet. Returns the number of copied exchanges. This conversation is not changed.
    ///
    /// [`Fork`] documents what is copied. Of the compactions, only that of the handle's [profile](Self::profile) is
    /// copied, as far as it is right for the copy. So the copy's next prompt begins as this conversation's prompt at
    /// that position did. A compaction that cannot be read is not copied.
    ///
    /// The copy has the label [`forked_from`](Labels::forked_from), which contains the id of this conversation. Other
    /// labels are not copied.
    ///
    /// A position within a turn leaves the copy's turn open. A position after the end copies the whole log. If there is
    /// no exchange before the position, nothing is copied and no conversation is created.
    ///
    /// Fork an encrypted log by a handle on the wrapper that decrypts it: encrypted content does not open in another
    /// conversation. Other handles refuse to fork if the newest turn is encrypted, but check no older one. If only
    /// older exchanges are encrypted, they make a copy that does not open.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, Fork, HistoryStoreExt, Seq};
    ///
    /// /// Tries another continuation from the third exchange on, and leaves the first one in place.
    /// async fn branch(store: &dyn Fork, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let copy = ConversationId::new(["acme", "user-42", "support-7b"])?;
    ///     store.conversation(id).fork(Seq::new(2), &copy).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ForkError::Exists`]: the other conversation exists already.
    /// - [`ForkError::Store`]: the store fails, the newest turn is encrypted and this is not a handle on the wrapper
    ///   that decrypts it, or the log is deleted or truncated during the call.
    #[doc(alias = "branch")]
    #[doc(alias = "copy")]
    pub async fn fork(&self, at: Seq, to: &ConversationId) -> Result<u64, ForkError> {
        let copy = self.store.load(to, Load::new().limit(smallest())).await?;
        let Loaded::Absent(epoch) = copy else { return Err(ForkError::Exists) };
        let Some(window) = self.newest_window().await? else { return Ok(0) };
        // The copy could not be decrypted under another id.
        window.exchanges.iter().try_for_each(Recorded::check_unsealed)?;

        // Exchanges that are appended after the load are not copied, so the label has the right position.
        let at = at.min(window.revision.next());
        let compact = window.compaction.as_ref().and_then(|compaction| {
            let cuts = Cuts::read(compaction).ok()?.truncated_to(at.get())?;
            cuts.compact(self.profile.clone(), compaction.version).ok()
        });
        let labels = Labels::of_fork(self.id, at);
        let to = ForkTo::new(to.clone(), at).since(Some(epoch)).labels(labels).compact(compact);

        let incarnation = window.revision.incarnation();
        let mut forked = self.store.fork(self.id, incarnation, to.clone()).await;
        if forked.as_ref().is_err_and(StoreError::is_retryable) {
            forked = self.store.fork(self.id, incarnation, to.clone()).await;
        }
        let copied = forked?.copied;
        tracing::info!(target: TARGET, action = "fork", conversation = %self.id, to = %to.id, exchanges = copied);
        Ok(copied)
    }
}

/// The error for a conversation that was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The other conversation exists already. Nothing was copied.
    #[error("the conversation to copy into already exists")]
    Exists,
    /// The log could not be read, or the copy could not be written.
    #[error("the conversation could not be copied: {0}")]
    Store(#[source] StoreError),
}

impl From<StoreError> for ForkError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { .. } => Self::Exists,
            error => Self::Store(error),
        }
    }
}

//! Keeping no more than the end of a conversation.

use super::Conversation;
use crate::store::{Derived, Prune, PruneTo, Pruned, StoreError};

impl<S: Prune + ?Sized> Conversation<'_, S> {
    /// Removes all but the last `turns` turns from the store, and returns how many exchanges were removed. At least the last
    /// turn stays; a conversation that does not exist has nothing to remove.
    ///
    /// What was removed is gone for good. Summaries stay: see [`prune`](Self::prune).
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Prune};
    ///
    /// async fn tidy(store: &dyn Prune, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let removed = store.conversation(id).keep_last_turns(50).await?;
    ///     println!("{removed} exchanges removed");
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_turns(&self, turns: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastTurns(turns)).await
    }

    /// Removes all but the last turns that together have at most `messages` messages, and returns how many exchanges were
    /// removed. At least the last turn stays, whatever its size. Otherwise as [`keep_last_turns`](Self::keep_last_turns).
    ///
    /// # Errors
    ///
    /// As [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_messages(&self, messages: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastMessages(messages)).await
    }

    /// Removes the beginning of the log from the store, as far as it is not to be kept. `None` if there is no such
    /// conversation.
    ///
    /// [`Prune`] says what becomes of calls in flight, of exchange ids and of compactions. With [`Derived::Keep`] summaries go
    /// on telling of what was removed; to forget it, remove them as well:
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, PruneTo, Prune, Seq, Derived};
    ///
    /// /// Forgets what stands before a position.
    /// async fn forget(
    ///     store: &dyn Prune,
    ///     id: &ConversationId,
    ///     before: Seq,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     store.conversation(id).prune(PruneTo::From(before), Derived::Erase).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Gone`](StoreError::Gone) when the conversation is deleted or truncated during the call, or when the store cannot be
    /// read or written. Unless the store says so, the beginning may be removed; asking again is harmless.
    pub async fn prune(&self, keep: PruneTo, traces: Derived) -> Result<Option<Pruned>, StoreError> {
        let Some(revision) = self.revision().await? else { return Ok(None) };
        self.store.prune(self.id, revision.incarnation(), keep, traces).await.map(Some)
    }

    async fn removed(&self, keep: PruneTo) -> Result<u64, StoreError> {
        Ok(self.prune(keep, Derived::Keep).await?.map_or(0, |pruned| pruned.removed))
    }
}

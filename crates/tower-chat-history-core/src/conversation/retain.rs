//! Removal of the beginning of a conversation.

use super::Conversation;
use crate::{
    management::TARGET,
    store::{Derived, Prune, PruneTo, Pruned, StoreError},
};

impl<S: Prune + ?Sized> Conversation<'_, S> {
    /// Removes all but the last `turns` turns from the store. Returns the number of removed exchanges. The last
    /// turn always remains. If the conversation does not exist, there is nothing to remove.
    ///
    /// Removed exchanges cannot be recovered. Summaries are kept: see [`prune`](Self::prune).
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
    /// The same as [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_turns(&self, turns: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastTurns(turns)).await
    }

    /// Removes the oldest turns, until the remaining ones have at most `messages` messages. Returns the number of
    /// removed exchanges. The last turn always remains, even if it has more messages. See also
    /// [`keep_last_turns`](Self::keep_last_turns).
    ///
    /// # Errors
    ///
    /// The same as [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_messages(&self, messages: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastMessages(messages)).await
    }

    /// Removes the beginning of the log from the store, up to the part to keep. Returns `None` if there is no such
    /// conversation.
    ///
    /// [`Prune`] documents the effects on calls in flight, on exchange ids and on compactions. With
    /// [`Derived::Keep`], summaries still describe removed exchanges. To remove these summaries too, use
    /// [`Derived::Erase`]:
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, PruneTo, Prune, Seq, Derived};
    ///
    /// /// Erases everything before a position.
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
    /// Returns [`Gone`](StoreError::Gone) if the conversation is deleted or truncated during the call, and another
    /// error if the store cannot be read or written. After an error other than a refusal, the beginning may have been
    /// removed. Repeating the call is safe.
    pub async fn prune(&self, keep: PruneTo, derived: Derived) -> Result<Option<Pruned>, StoreError> {
        let Some(revision) = self.revision().await? else { return Ok(None) };
        let pruned = self.store.prune(self.id, revision.incarnation(), keep, derived).await?;
        let exchanges = pruned.removed;
        tracing::info!(target: TARGET, action = "prune", conversation = %self.id, exchanges, ?derived);
        Ok(Some(pruned))
    }

    async fn removed(&self, keep: PruneTo) -> Result<u64, StoreError> {
        Ok(self.prune(keep, Derived::Keep).await?.map_or(0, |pruned| pruned.removed))
    }
}

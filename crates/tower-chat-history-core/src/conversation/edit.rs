//! Removal of the end of a conversation.

use super::Conversation;
use crate::{
    compaction::{Compaction, Cuts},
    exchange::Recorded,
    management::TARGET,
    revision::Revision,
    seq::Seq,
    store::{StoreError, Truncate, Truncated},
};

impl<S: Truncate + ?Sized> Conversation<'_, S> {
    /// Removes the exchanges from position `from` on, so that the conversation can continue with another message.
    /// If the conversation does not exist, there is nothing to remove.
    ///
    /// [`Truncate`] documents the effects on calls in flight, on exchange ids and on compactions. A position within
    /// a turn leaves the turn open. Position 0 removes the conversation. If there is no exchange at the position,
    /// nothing is removed.
    ///
    /// Of the compactions, only that of the handle's [profile](Self::profile) stays, as far as it is still right. If it
    /// cannot be read, it is removed, too.
    ///
    /// This truncates the current log. If the log was edited after you read a position, the position may belong to
    /// another exchange now. To refuse the truncation in that case, call [`Truncate::truncate`] with the revision at
    /// which you read the position.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) if the log changes during the call.
    /// Nothing is removed then. Returns another error if the store cannot be read or written.
    pub async fn truncate(&self, from: Seq) -> Result<Truncated, StoreError> {
        let found = match self.newest_window().await {
            Ok(window) => window.map(|window| (window.revision, window.compaction)),
            // Exchanges and compactions that cannot be read can still be removed.
            Err(StoreError::Corrupt { .. } | StoreError::CorruptCompaction { .. }) => {
                self.revision().await?.map(|revision| (revision, None))
            }
            Err(error) => return Err(error),
        };
        match found {
            Some((revision, compaction)) => self.truncate_at(revision, compaction.as_ref(), from).await,
            None => Ok(Truncated::new(None, 0)),
        }
    }

    /// Removes the last exchange and returns it, or returns `None` if there is no such conversation. To have the
    /// reply generated again, send its input again.
    ///
    /// This removes one exchange, not one turn. In a turn with tool calls, that is the last continuation, whose input
    /// is the results of the calls. To see if the exchange has a reply, look at its last message. The store no longer
    /// has the exchange, so keep the returned value until its input has been sent again.
    ///
    /// Only stored exchanges count. If an engine serves the conversation, let it finish its saves first
    /// (`Engine::saved`). Otherwise, if a complete reply is not stored yet, this method removes the exchange that
    /// precedes it, and the store then refuses the reply.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message, Role, Truncate};
    ///
    /// /// Returns the messages to send again.
    /// async fn regenerate(
    ///     store: &dyn Truncate,
    ///     id: &ConversationId,
    /// ) -> Result<Option<Vec<Message>>, Box<dyn std::error::Error>> {
    ///     let Some(last) = store.conversation(id).take_last().await? else { return Ok(None) };
    ///     let mut input = last.exchange.messages.clone();
    /// // All messages before the reply are input. The same exchange id may be used again, too.
    ///     if input.last().is_some_and(|message| *message.role() == Role::Assistant) {
    ///         input.pop();
    ///     }
    ///     Ok(Some(input))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) if the log changes during the call.
    /// Nothing is removed then, and the last exchange may be another one.
    ///
    /// Returns another error if the store cannot be read or written. If writing failed, the exchange may have been
    /// removed. If you need its contents in that case, read it first.
    #[doc(alias = "forget_last")]
    #[doc(alias = "clear_history")]
    #[doc(alias = "regenerate")]
    #[doc(alias = "undo")]
    pub async fn take_last(&self) -> Result<Option<Recorded>, StoreError> {
        let Some(mut window) = self.newest_window().await? else { return Ok(None) };
        let Some(last) = window.exchanges.pop() else { return Ok(None) };
        last.check_unsealed()?;
        self.truncate_at(window.revision, window.compaction.as_ref(), last.seq).await?;
        Ok(Some(last))
    }

    async fn truncate_at(
        &self,
        revision: Revision,
        compaction: Option<&Compaction>,
        from: Seq,
    ) -> Result<Truncated, StoreError> {
        let keep = compaction.and_then(|compaction| {
            let cuts = Cuts::read(compaction).ok()?.truncated_to(from.get())?;
            cuts.compact(self.profile.clone(), compaction.version).ok()
        });
        let truncated = self.store.truncate(self.id, revision, from, keep).await?;
        let exchanges = truncated.removed;
        tracing::info!(target: TARGET, action = "truncate", conversation = %self.id, exchanges);
        Ok(truncated)
    }
}

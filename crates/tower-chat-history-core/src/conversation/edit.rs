//! Taking back the end of a conversation.

use super::Conversation;
use crate::{
    exchange::Recorded,
    seq::Seq,
    store::{StoreError, Truncate, Truncated},
};

impl<S: Truncate + ?Sized> Conversation<'_, S> {
    /// Removes the exchanges from position `from` on: go on from there with another message. A conversation that does not
    /// exist has nothing to remove.
    ///
    /// [`Truncate`] says what becomes of calls in flight, of exchange ids and of compactions. A position within a turn
    /// leaves the turn open; position 0 leaves no conversation; where nothing stands at the position, nothing is removed.
    ///
    /// The log is cut as it is at the time of this call. After another edit a position that was read before names another
    /// exchange: with [`Truncate::truncate`] and the revision of that reading such a cut is refused.
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) when the log changes during the call (nothing is
    /// removed then), or when the store cannot be read or written.
    pub async fn truncate(&self, from: Seq) -> Result<Truncated, StoreError> {
        match self.revision().await? {
            Some(revision) => self.store.truncate(self.id, revision, from).await,
            None => Ok(Truncated::new(None, 0)),
        }
    }

    /// Removes the last exchange and returns it; `None` when there is no such conversation. Send its input again to have
    /// the reply generated anew.
    ///
    /// It is one exchange, not one turn: of a turn with tool calls it is the last continuation, whose input are the results
    /// of the calls. Whether an exchange ends with a reply, its last message says. Until its input is sent again, nobody has
    /// it but the caller.
    ///
    /// What counts is what is stored: where an engine serves the conversation, let it finish its saves first
    /// (`Engine::saved`), or a reply that is complete and not stored yet is refused, and the exchange before it removed.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message, Role, Truncate};
    ///
    /// /// The messages to send again.
    /// async fn regenerate(
    ///     store: &dyn Truncate,
    ///     id: &ConversationId,
    /// ) -> Result<Option<Vec<Message>>, Box<dyn std::error::Error>> {
    ///     let Some(last) = store.conversation(id).take_last().await? else { return Ok(None) };
    ///     let mut input = last.exchange.messages.clone();
    ///     // What stands before the reply is the input. The same exchange id may be used again, too.
    ///     if input.last().is_some_and(|message| *message.role() == Role::Assistant) {
    ///         input.pop();
    ///     }
    ///     Ok(Some(input))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) when the log changes during the call: nothing is
    /// removed then, and the last exchange may be another one. Otherwise when the store cannot be read or written: unless it
    /// could not be read, the exchange may be removed, and whoever needs it reads it before.
    #[doc(alias = "forget_last")]
    #[doc(alias = "clear_history")]
    #[doc(alias = "regenerate")]
    #[doc(alias = "undo")]
    pub async fn take_last(&self) -> Result<Option<Recorded>, StoreError> {
        let Some((revision, mut turn)) = self.end().await? else { return Ok(None) };
        let Some(last) = turn.pop() else { return Ok(None) };
        self.store.truncate(self.id, revision, last.seq).await?;
        Ok(Some(last))
    }
}

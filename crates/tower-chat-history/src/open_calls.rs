//! The tool calls that a conversation waits for.

use async_trait::async_trait;
use tower_chat_history_core::{Conversation, HistoryStore, NewestRound, StoreError, ToolCall};

/// What of a [`Conversation`] is said by the [view](crate::view), and not by the log alone.
#[async_trait]
pub trait ConversationExt {
    /// Returns the tool calls of the log's last round that have no result yet, in order, with their ids, names and
    /// arguments: those that the next call must bring results for. Empty when nothing is open, or when there is no such
    /// conversation.
    ///
    /// They are the calls that the [view](crate::view::View) of the log has [open](crate::view::View::open), also where results
    /// were stored one by one. What this reads depends on the size of the newest turn, and not on the log's.
    ///
    /// Only what is stored counts. Where an engine of this process serves the conversation, let it finish its saves
    /// first ([`Engine::saved`](crate::Engine::saved)).
    ///
    /// ```
    /// use tower_chat_history::{
    ///     ConversationId, HistoryStore, HistoryStoreExt as _, StoreError, store::ConversationExt as _,
    /// };
    ///
    /// /// The work that a process before this one left undone.
    /// async fn resume(store: &dyn HistoryStore, id: &ConversationId) -> Result<(), StoreError> {
    ///     for call in store.conversation(id).open_calls().await? {
    ///         println!("{} waits for {}({})", call.id(), call.name(), call.arguments());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the conversation was deleted or truncated while it was being read
    /// ([`Gone`](StoreError::Gone)).
    async fn open_calls(&self) -> Result<Vec<ToolCall>, StoreError>;
}

#[async_trait]
impl<S: HistoryStore + ?Sized> ConversationExt for Conversation<'_, S> {
    async fn open_calls(&self) -> Result<Vec<ToolCall>, StoreError> {
        let end = self.newest_round().await?;
        Ok(NewestRound::of(&end).open_calls(&end))
    }
}

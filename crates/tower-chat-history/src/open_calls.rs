//! The open tool calls of a conversation.

use async_trait::async_trait;
use tower_chat_history_core::{Conversation, HistoryStore, NewestRound, StoreError, ToolCall};

/// Methods of a [`Conversation`] that follow the rules of the [view](crate::view).
#[async_trait]
pub trait ConversationExt {
    /// Returns the tool calls of the log's last round that have no result yet, in order, with their ids, names and
    /// arguments. The next input must answer them. The list is empty if no call is open, or if the conversation does
    /// not exist.
    ///
    /// The result is the same as that of [`View::open`](crate::view::View::open) for the whole log, also if results
    /// were stored one by one. The method reads only the end of the log: the amount of data depends on the size of
    /// the newest turn.
    ///
    /// The method reads only stored exchanges. If an engine in this process serves the conversation, finish its
    /// pending saves first ([`Engine::saved`](crate::Engine::saved)).
    ///
    /// ```
    /// use tower_chat_history::{
    ///     ConversationId, HistoryStore, HistoryStoreExt as _, StoreError, store::ConversationExt as _,
    /// };
    ///
    /// /// Continues the work that an earlier process did not finish.
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
    /// Returns an error if the store cannot be read, or if the conversation was deleted or truncated during the read
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

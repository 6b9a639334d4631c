//! The tool calls that a conversation waits for.

use async_trait::async_trait;
use tower_chat_history_context::view::View;
use tower_chat_history_core::{Conversation, HistoryStore, Message, Recorded, StoreError, ToolCall};

/// What of a [`Conversation`] is said by the [view](crate::view), and not by the log alone.
#[async_trait]
pub trait ConversationExt {
    /// Returns the tool calls of the log's last round that have no result yet, in order, with their ids, names and
    /// arguments: those that the next call must bring results for. Empty when nothing is open, or when there is no such
    /// conversation.
    ///
    /// They are the calls that the [view](crate::View) of the log has [open](crate::View::open), also where results
    /// were stored one by one. What this reads depends on the size of the newest turn, and not on the log's.
    ///
    /// Only what is stored counts. Where an engine of this process serves the conversation, let it finish its saves
    /// first ([`Engine::saved`](crate::Engine::saved)).
    ///
    /// ```
    /// use tower_chat_history::{ConversationExt as _, ConversationId, HistoryStore, HistoryStoreExt as _, StoreError};
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
        let mut end = self.newest_turn().await?;
        // Only an edited or imported log has an opening that begins with results: they may answer calls before it.
        while end.first().is_some_and(depends_on_what_is_before) {
            let asked = end.len().saturating_mul(2);
            end = self.last(asked).await?;
            if end.len() < asked {
                break;
            }
        }
        Ok(open_calls(&end))
    }
}

/// Whether the view of a log from this exchange on depends on what stands before it.
fn depends_on_what_is_before(exchange: &Recorded) -> bool {
    let first = exchange.exchange.messages.first();
    first.is_none_or(|first| first.is_tool_result() || first.is_blank_reply())
}

/// The calls that the view of these exchanges has open.
fn open_calls(exchanges: &[Recorded]) -> Vec<ToolCall> {
    let mut view = View::default();
    for recorded in exchanges {
        view.push_exchange(&recorded.exchange);
    }
    let mut open: Vec<&str> = view.open().ids().collect();
    let asked = view.messages().iter().rfind(|message| !message.tool_calls().is_empty());
    let calls = asked.map(Message::tool_calls).unwrap_or_default();
    // Of calls with one id, the first ones were answered first.
    let mut calls: Vec<ToolCall> =
        calls.iter().rev().filter(|call| open.pop_if(|id| *id == call.id()).is_some()).cloned().collect();
    calls.reverse();
    calls
}

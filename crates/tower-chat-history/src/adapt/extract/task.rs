//! The conversation of the running task.

use tower_chat_history_core::ConversationId;

use super::{CallScope, ExtractScope};
use crate::error::{BoxError, MissingConversation};

tokio::task_local! {
    /// `None` is the value within [`stateless`]. The scope has no exchange id, because an exchange id belongs to a
    /// single call and a scope may contain several.
    static CONVERSATION: Option<ConversationId>;
}

/// Runs a future in a conversation: calls within it belong to the conversation, if their adapter
/// [reads the id from the task](FromTask).
///
/// Functions that a request handler calls then need no parameter for the conversation id. If scopes are nested, the
/// innermost one applies. A scope ends with its future. It does not extend to tasks that are spawned within it, as
/// for every tokio task-local.
///
/// ```
/// use serde_json::json;
/// use tower::{ServiceBuilder, ServiceExt};
/// use tower_chat_history::{
///     BoxError, ChatHistoryLayer, ConversationId, HistoryStoreExt, MemoryStore, adapt::Json, in_conversation,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|_: serde_json::Value| async {
/// #     Ok::<_, std::io::Error>(json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}))
/// # });
/// let store = MemoryStore::new();
/// let layer = ChatHistoryLayer::new(store.clone(), Json::new().id_from_task());
/// let chat = ServiceBuilder::new().layer(layer).service(llm);
///
/// let id = ConversationId::new(["acme", "user-42"])?;
/// in_conversation(id.clone(), async {
///     chat.oneshot(json!({"messages": [{"role": "user", "content": "Hi"}]})).await
/// })
/// .await?;
/// assert_eq!(store.conversation(&id).messages().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub fn in_conversation<F: Future>(id: ConversationId, future: F) -> impl Future<Output = F::Output> {
    CONVERSATION.scope(Some(id), future)
}

/// Runs a future outside of every conversation: calls within it pass through unchanged, and nothing is stored, if their
/// adapter [reads the id from the task](FromTask).
pub fn stateless<F: Future>(future: F) -> impl Future<Output = F::Output> {
    CONVERSATION.scope(None, future)
}

/// Extracts the conversation of the [scope](in_conversation) in which the call is made. The call is the request itself.
///
/// The id is read when the call's future is first polled, so await the future within the scope.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FromTask;

impl FromTask {
    /// Creates the extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<R> ExtractScope<R> for FromTask {
    type Call = R;

    fn extract(&self, call: R) -> Result<(CallScope, R), BoxError> {
        let id = CONVERSATION.try_with(Clone::clone).map_err(|_| MissingConversation)?;
        Ok((id.map_or(CallScope::Stateless, CallScope::from), call))
    }
}

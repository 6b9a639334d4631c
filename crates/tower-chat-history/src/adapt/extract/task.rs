//! The conversation of the running task.

use tower_chat_history_core::ConversationId;

use super::{CallScope, ExtractScope, MissingConversation};
use crate::{discard::discard, error::BoxError};

tokio::task_local! {
    /// `None` is explicitly stateless. Only the conversation stands here: an exchange id is one call's, not a scope's.
    static CONVERSATION: Option<ConversationId>;
}

/// Runs a future in a conversation: every call within it whose adapter [reads the id from the task](FromTask) belongs there.
///
/// So code deep inside of a request handler need not know of conversations. The innermost scope counts, and a scope ends
/// with its future. A task that is spawned within it stands outside, as with all task-locals.
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

/// Runs a future outside of every conversation: calls within it whose adapter [reads the id from the task](FromTask) are
/// passed on as they are, and nothing is stored.
pub fn stateless<F: Future>(future: F) -> impl Future<Output = F::Output> {
    CONVERSATION.scope(None, future)
}

/// The call is the request, and its conversation is that of the [scope](in_conversation) it is made in.
///
/// The id is read when the call's future is first polled: the future has to be awaited within the scope.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FromTask;

impl FromTask {
    /// The extractor.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<R: 'static> ExtractScope<R> for FromTask {
    type Call = R;

    fn extract(&self, call: R) -> Result<(CallScope, R), BoxError> {
        let Ok(id) = CONVERSATION.try_with(Clone::clone) else {
            discard(call);
            return Err(MissingConversation.into());
        };
        Ok((id.map_or(CallScope::Stateless, CallScope::from), call))
    }
}

//! Messages in a form that can be written down and compared.

use tower_chat_history::{ConversationId, HistoryStore, HistoryStoreExt, Message, store::Recorded};
use tower_chat_history_test::MockLlm;

/// The constant result that stands for one that never came: changing it would change prompts that were already sent.
pub const ABANDONED: &str = "[no result: this call was abandoned]";

/// A message as `role: text`, with the calls it makes or answers.
#[must_use]
pub fn short(message: &Message) -> String {
    let calls: Vec<_> = message.tool_calls().iter().map(|call| call.id()).collect();
    let of = match message.tool_call_id() {
        Some(id) => format!(" {id}"),
        None if calls.is_empty() => String::new(),
        None => format!(" calls {}", calls.join(",")),
    };
    format!("{}{of}: {}", message.role(), message.text())
}

/// Every message in short.
#[must_use]
pub fn prompt<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    messages.into_iter().map(short).collect()
}

/// What a model was sent so far, in short.
#[must_use]
pub fn prompts(llm: &MockLlm) -> Vec<Vec<String>> {
    llm.prompts().iter().map(prompt).collect()
}

/// The log's messages in short.
pub async fn log(store: &dyn HistoryStore, id: &ConversationId) -> Vec<String> {
    prompt(&store.conversation(id).messages().await.unwrap())
}

/// The log's exchanges.
pub async fn exchanges(store: &dyn HistoryStore, id: &ConversationId) -> Vec<Recorded> {
    store.conversation(id).exchanges().await.unwrap()
}

//! Messages in a short form that tests can write down and compare.

use tower_chat_history::{ConversationId, HistoryStore, HistoryStoreExt, Message, store::Recorded};
use tower_chat_history_test::MockLlm;

/// The constant result of a call that never got one. Changing it would change prompts that were sent before.
pub const ABANDONED: &str = "[no result: this call was abandoned]";

/// The constant reply before a question, in the short form of a prompt.
pub const NO_REPLY: &str = "assistant: [no reply]";

/// The constant reply to a summary and to recalled messages, in the short form of a prompt.
pub const UNDERSTOOD: &str = "assistant: Understood.";

/// Returns a message as `role: text`, with the ids of the calls that it makes or answers.
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

/// Returns every message in the short form.
#[must_use]
pub fn prompt<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    messages.into_iter().map(short).collect()
}

/// Returns the prompts that a model has received so far, in the short form.
#[must_use]
pub fn prompts(llm: &MockLlm) -> Vec<Vec<String>> {
    llm.prompts().iter().map(prompt).collect()
}

/// Returns the messages of the log, in the short form.
pub async fn log(store: &dyn HistoryStore, id: &ConversationId) -> Vec<String> {
    prompt(&store.conversation(id).messages().await.unwrap())
}

/// Returns the exchanges of the log.
pub async fn exchanges(store: &dyn HistoryStore, id: &ConversationId) -> Vec<Recorded> {
    store.conversation(id).exchanges().await.unwrap()
}

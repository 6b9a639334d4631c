//! Short forms of calls and values that many of these tests use.

use std::time::Duration;

use async_openai::types::chat::{ChatCompletionStreamOptions, CreateChatCompletionRequest};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::{CallKind, Chat, Storage, TypedCall, request};
use tower_chat_history::{ContextBudget, ConversationId, HistoryOptions, HistoryStore as _, InConversation, Message};

/// Returns a call with a user message that requests usage numbers.
pub(crate) fn call_with_usage(id: &ConversationId, text: &str) -> TypedCall {
    let mut request: CreateChatCompletionRequest = request([Message::user(text)]);
    request.stream_options = Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
    InConversation::new(id.clone(), request)
}

/// Makes a call, and waits for everything that it leaves running. Returns true if it succeeded.
pub(crate) async fn ask(chat: &Chat, kind: CallKind, id: &ConversationId, text: &str) -> bool {
    let answered = chat.call(kind, call_with_usage(id, text)).await.is_ok();
    drain(chat).await;
    answered
}

/// Waits for everything that runs without a caller.
pub(crate) async fn drain(chat: &Chat) {
    chat.engine().drain(Duration::from_secs(100)).await.unwrap();
}

/// Reads some items of a stream, then drops it.
pub(crate) async fn read(chat: &Chat, call: TypedCall, items: usize) {
    let stream = chat.stream(call).await.unwrap();
    assert_eq!(stream.take(items).count().await, items);
}

/// Returns the store's name as a database, or null if it is not one.
pub(crate) fn database(storage: &Storage) -> Value {
    match storage.store.system() {
        "memory" => Value::Null,
        system => json!(system),
    }
}

/// A small budget without calibration.
pub(crate) fn small() -> HistoryOptions {
    HistoryOptions::new().context(ContextBudget::tokens(600).reply_reserve(100).calibrate(false))
}

/// Returns a text of about 25 tokens.
pub(crate) fn long(text: &str) -> String {
    format!("{text} {}", "word ".repeat(20))
}

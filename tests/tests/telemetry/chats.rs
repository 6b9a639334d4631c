//! What the tests here say often.

use std::time::Duration;

use async_openai::types::chat::{ChatCompletionStreamOptions, CreateChatCompletionRequest};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::{Asked, Chat, Door, Storage, request};
use tower_chat_history::{ContextBudget, ConversationId, HistoryOptions, HistoryStore as _, InConversation, Message};

/// A user's text, asking for the usage.
pub(crate) fn asking(id: &ConversationId, text: &str) -> Asked {
    let mut request: CreateChatCompletionRequest = request([Message::user(text)]);
    request.stream_options = Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
    InConversation::new(id.clone(), request)
}

/// Asks, and waits for everything that comes of it.
pub(crate) async fn ask(chat: &Chat, door: Door, id: &ConversationId, text: &str) -> bool {
    let answered = chat.call(door, asking(id, text)).await.is_ok();
    drain(chat).await;
    answered
}

/// Waits for what goes on behind the caller's back.
pub(crate) async fn drain(chat: &Chat) {
    chat.engine().drain(Duration::from_secs(100)).await.unwrap();
}

/// Reads that many items of a stream, and leaves.
pub(crate) async fn read(chat: &Chat, call: Asked, items: usize) {
    let stream = chat.stream(call).await.unwrap();
    assert_eq!(stream.take(items).count().await, items);
}

/// The store's name as a database, if it is one.
pub(crate) fn database(storage: &Storage) -> Value {
    match storage.store.system() {
        "memory" => Value::Null,
        system => json!(system),
    }
}

/// A small budget, and nothing learned on the way.
pub(crate) fn small() -> HistoryOptions {
    HistoryOptions::new().context(ContextBudget::tokens(600).reply_reserve(100).calibrate(false))
}

/// A text of some 25 tokens.
pub(crate) fn long(text: &str) -> String {
    format!("{text} {}", "word ".repeat(20))
}

//! Shared parts of the benches: a model that costs almost nothing, messages of a typical size, and filled stores.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // Benches may panic.

pub mod api;
pub mod contest;
pub mod growth;
pub mod turns;

use std::{convert::Infallible, sync::Arc};

use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use futures_util::StreamExt as _;
use serde_json::json;
use tower::util::BoxCloneSyncService;
use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore, Message,
    store::{Append, Expect},
};

pub use self::turns::FixedWindow;

/// The number of messages of the log that each call sends.
pub const WINDOW: usize = 60;

/// Returns a test of the names of parts that the command line selects: all if it names none. Returns `None` if nothing
/// is measured, because `cargo test` runs benches without `--bench`.
#[must_use]
pub fn selected() -> Option<impl Fn(&str) -> bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let named: Vec<String> = arguments.into_iter().filter(|argument| !argument.starts_with('-')).collect();
    is_bench.then_some(move |name: &str| named.is_empty() || named.iter().any(|selected| selected == name))
}

/// Returns a text of 250 bytes that needs no escaping in JSON.
#[must_use]
pub fn text() -> String {
    "The quick brown fox jumps over the lazy dog and runs on. ".repeat(5)[..250].to_owned()
}

/// Returns a text of 250 bytes like source code, with 14 quotes and newlines that JSON escapes.
#[must_use]
pub fn code() -> String {
    "The \"quick\" brown fox jumps over the lazy dog and runs on.\n".repeat(5)[..250].to_owned()
}

/// Returns a question and an answer with this text.
#[must_use]
pub fn turn(text: &str) -> [Message; 2] {
    [Message::user(text), Message::assistant(text)]
}

/// Returns a request with a question.
#[must_use]
pub fn question() -> CreateChatCompletionRequest {
    request(&[Message::user(text())])
}

/// Returns a request with these messages.
#[must_use]
pub fn request(messages: &[Message]) -> CreateChatCompletionRequest {
    let json = serde_json::to_string(&json!({"model": "gpt-4o", "messages": messages})).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// A boxed model service, whose futures are boxed too.
pub type Llm = BoxCloneSyncService<CreateChatCompletionRequest, CreateChatCompletionResponse, Infallible>;

/// Returns a model that always gives the same answer of 250 bytes.
#[must_use]
pub fn llm() -> Llm {
    let response = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o-2024-08-06",
        "choices": [{
            "index": 0, "finish_reason": "stop", "logprobs": null,
            "message": {"role": "assistant", "content": text()}
        }],
        "usage": {"prompt_tokens": 3_400, "completion_tokens": 56, "total_tokens": 3_456}
    });
    let response: Arc<CreateChatCompletionResponse> = Arc::new(serde_json::from_value(response).unwrap());
    BoxCloneSyncService::new(tower::service_fn(move |request: CreateChatCompletionRequest| {
        let response = Arc::clone(&response);
        async move {
            std::hint::black_box(request);
            Ok(CreateChatCompletionResponse::clone(&response))
        }
    }))
}

/// Returns the id of the conversation with this number.
#[must_use]
pub fn conversation(number: usize) -> ConversationId {
    ConversationId::new(["acme", "user-42", &format!("support-{number}")]).unwrap()
}

/// Appends this many turns, one exchange each.
pub async fn fill(store: &dyn HistoryStore, id: &ConversationId, turn: &[Message; 2], turns: usize) {
    for _ in 0..turns {
        let exchange = Exchange::new(ExchangeId::generate(), turn.iter().cloned());
        store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
}

/// Fills the conversations with these numbers, many of them concurrently.
pub async fn fill_all(store: &dyn HistoryStore, numbers: std::ops::Range<usize>, turns: usize) {
    fill_all_as(store, numbers, turns, conversation).await;
}

/// Does the same for conversations with other ids.
pub async fn fill_all_as(
    store: &dyn HistoryStore,
    numbers: std::ops::Range<usize>,
    turns: usize,
    id: fn(usize) -> ConversationId,
) {
    let turn = turn(&text());
    futures_util::stream::iter(numbers)
        .for_each_concurrent(256, |number| {
            let turn = turn.clone();
            async move { fill(store, &id(number), &turn, turns).await }
        })
        .await;
}

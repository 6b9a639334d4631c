//! The number of allocations of a turn, exactly, so that none comes back unnoticed.
//!
//! This is a separate binary, because it replaces the global allocator. Only the allocations of the layer or the engine
//! are counted: those of the same call to the bare service are subtracted. The store is in memory. If a number changes,
//! the test prints the new table. Fewer allocations are a reason to change the table, and more are a reason to look for
//! their cause.
//!
//! The measured turn is not the first one of its conversation. A first turn adds the conversation to tables that all
//! conversations share, and these are divided by random hashes, so a table may or may not grow.

#![allow(clippy::unwrap_used)] // Tests may panic.

use std::{collections::BTreeMap, convert::Infallible};

use allocation_counter::AllocationInfo;
use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tests::request;
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_chat_history::{
    ChatHistoryLayer, ConversationId, Engine, Exchange, ExchangeId, HistoryStore as _, InConversation, MemoryStore,
    Message, Reply, TurnInput,
    adapt::extract::FromExtensions,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    http::{HistoryBody, HttpHistory},
    store::{Append, Expect},
};
use tower_chat_history_openai::OpenAi;

/// The numbers of messages in the windows.
const WINDOWS: [usize; 3] = [4, 60, 400];

/// The allocations of a turn with each of the [`WINDOWS`].
const EXPECTED: [(&str, [u64; 3]); 5] = [
    ("engine", [34, 34, 34]),
    ("typed", [75, 131, 471]),
    ("http, chat completions", [79, 79, 79]),
    ("http, messages", [89, 89, 89]),
    ("http, responses", [88, 88, 88]),
];

const TEXT: &str = "The quick brown fox jumps over the lazy dog.";

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn allocations<T>(runtime: &Runtime, work: impl Future<Output = T>) -> u64 {
    let AllocationInfo { count_total, .. } = allocation_counter::measure(|| drop(runtime.block_on(work)));
    count_total
}

/// Returns a conversation with this many messages.
async fn conversation(store: &MemoryStore, messages: usize, turn: &[Message; 2]) -> ConversationId {
    let id = ConversationId::new(["acme", "user-42", &messages.to_string()]).unwrap();
    for _ in 0..messages / 2 {
        let exchange = Exchange::new(ExchangeId::generate(), turn.iter().cloned());
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    id
}

/// Returns the number of allocations of a turn, for each window.
fn per_window<F: Future>(
    store: &MemoryStore,
    runtime: &Runtime,
    turn: &[Message; 2],
    mut work: impl FnMut(ConversationId) -> F,
) -> [u64; 3] {
    WINDOWS.map(|window| {
        // The first turn adds two messages.
        let id = runtime.block_on(conversation(store, window - 2, turn));
        runtime.block_on(work(id.clone()));
        allocations(runtime, work(id))
    })
}

fn less(all: [u64; 3], bare: u64) -> [u64; 3] {
    all.map(|all| all - bare)
}

fn engine() -> [u64; 3] {
    let (runtime, store) = (runtime(), MemoryStore::new());
    let (engine, turn) = (Engine::new(store.clone()), [Message::user(TEXT), Message::assistant(TEXT)]);
    per_window(&store, &runtime, &turn, |id| {
        let (engine, [question, answer]) = (engine.clone(), turn.clone());
        async move {
            let turn = engine.begin(TurnInput::new(id, [question])).await.unwrap();
            turn.commit(Reply::new(answer)).await.unwrap()
        }
    })
}

/// A model that always gives the same answer.
fn llm()
-> impl Service<CreateChatCompletionRequest, Response = CreateChatCompletionResponse, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let response: CreateChatCompletionResponse = serde_json::from_value(json!({
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    }))
    .unwrap();
    service_fn(move |_| {
        let response = response.clone();
        async move { Ok(response) }
    })
}

fn typed() -> [u64; 3] {
    let (runtime, store) = (runtime(), MemoryStore::new());
    let question = request([Message::user(TEXT)]);
    let bare = allocations(&runtime, llm().oneshot(question.clone()));
    let chat = ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm());
    let turn = [Message::user(TEXT), Message::assistant(TEXT)];
    let all = per_window(&store, &runtime, &turn, |id| chat.clone().oneshot(InConversation::new(id, question.clone())));
    less(all, bare)
}

/// A format of an API.
struct Api {
    dialect: &'static dyn Dialect,
    path: &'static str,
    request: &'static str,
    answer: &'static str,
    response: &'static str,
}

const CHAT: Api = Api {
    dialect: &ChatCompletions,
    path: "/v1/chat/completions",
    request: r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#,
    answer: r#"{"role":"assistant","content":"Hello"}"#,
    response: r#"{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#,
};

const MESSAGES: Api = Api {
    dialect: &AnthropicMessages,
    path: "/v1/messages",
    request: r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#,
    answer: r#"{"role":"assistant","content":[{"type":"text","text":"Hello"}]}"#,
    response: r#"{"id":"1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#,
};

const RESPONSES: Api = Api {
    dialect: &OpenAiResponses,
    path: "/v1/responses",
    request: r#"{"model":"m","store":false,"input":[{"role":"user","content":"Hi"}]}"#,
    answer: r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}"#,
    response: r#"{"id":"1","object":"response","status":"completed","model":"m","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1}}"#,
};

fn over_http(api: &'static Api) -> [u64; 3] {
    let (runtime, store) = (runtime(), MemoryStore::new());
    let client = service_fn(move |request: Request<HistoryBody>| async move {
        drop(request.into_body().collect().await.unwrap().to_bytes());
        let response = Response::builder().header("content-type", "application/json");
        Ok::<_, Infallible>(response.body(Full::<Bytes>::from(api.response)).unwrap())
    });
    let request = |id: Option<ConversationId>| {
        let body = Full::new(Bytes::from_static(api.request.as_bytes()));
        let mut request = Request::post(format!("https://llm.test{}", api.path)).body(body).unwrap();
        request.extensions_mut().insert(id);
        request
    };
    let bare = allocations(&runtime, async {
        let response = client.oneshot(request(None).map(HistoryBody::new)).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    let adapter = HttpHistory::new().extract_by(FromExtensions::new());
    let chat = ChatHistoryLayer::new(store.clone(), adapter).layer(client);
    let question = r#"{"role":"user","content":"Hi"}"#;
    let turn = [question, api.answer].map(|json| Message::in_dialect(api.dialect, json).unwrap());
    let all = per_window(&store, &runtime, &turn, |id| {
        let mut asked = request(None);
        asked.extensions_mut().insert(id);
        let chat = chat.clone();
        async move { chat.oneshot(asked).await.unwrap().into_body().collect().await.unwrap().to_bytes() }
    });
    less(all, bare)
}

#[test]
fn each_turn_allocates_as_often_as_expected() {
    let found = BTreeMap::from([
        ("engine", engine()),
        ("typed", typed()),
        ("http, chat completions", over_http(&CHAT)),
        ("http, messages", over_http(&MESSAGES)),
        ("http, responses", over_http(&RESPONSES)),
    ]);
    assert_eq!(found, BTreeMap::from(EXPECTED), "windows of {WINDOWS:?} messages");
}

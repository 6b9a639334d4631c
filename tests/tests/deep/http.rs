//! History over HTTP requests. The client integration, which uses the same functions, has more cases.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, MemoryStore,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
};

use super::{
    Case, block_on,
    texts::{deep_store, id, texts},
};

pub(crate) const CASES: &[Case] =
    cases![http_bodies_are_read_and_spliced, invalid_http_bodies_are_refused, http_responses_are_read];

const OK: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;

/// Sends a body. Returns the sent body and the response.
async fn call(store: MemoryStore, body: String, kind: &str, answer: &str) -> Result<(Vec<u8>, Vec<u8>), BoxError> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let transport = service_fn({
        let (sent, kind, answer) = (Arc::clone(&sent), kind.to_owned(), answer.to_owned());
        move |request: Request<HistoryBody>| {
            let (sent, response) = (Arc::clone(&sent), Response::builder().header("content-type", kind.as_str()));
            let response = response.body(answer.clone()).unwrap();
            async move {
                *sent.lock().unwrap() = request.into_body().collect().await.unwrap().to_bytes().to_vec();
                Ok::<_, Infallible>(response)
            }
        }
    });
    let service = ChatHistoryLayer::new(store, HttpHistory::new()).layer(transport);
    let request = Request::post("/v1/chat/completions").header(CONVERSATION_ID, id().to_string());
    let response = service.oneshot(request.body(body)?).await?;
    let answered = response.into_body().collect().await?.to_bytes().to_vec();
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    Ok((sent, answered))
}

fn http_bodies_are_read_and_spliced() {
    for deep in texts() {
        let messages = format!(r#"[{{"role":"system","content":{deep}}},{{"role":"user","content":{deep}}}]"#);
        let body = format!(r#"{{"unknown":{deep},"messages":{messages},"tools":{deep},"response_format":{deep}}}"#);
        let length = body.len();
        let (sent, _) = block_on(async { call(deep_store().await, body, "application/json", OK).await }).unwrap();
        assert!(sent.len() > length);
    }
}

fn invalid_http_bodies_are_refused() {
    for deep in texts() {
        for name in ["model", "messages", "n", "max_tokens"] {
            let body = format!(r#"{{"{name}":{deep},"messages":[{{"role":"user","content":"a"}}]}}"#);
            let _ = block_on(call(MemoryStore::new(), body, "application/json", OK));
        }
        assert!(block_on(call(MemoryStore::new(), deep, "application/json", OK)).is_err());
    }
}

fn http_responses_are_read() {
    let body = || r#"{"messages":[{"role":"user","content":"a"}]}"#.to_owned();
    for deep in texts() {
        let message = format!(r#"{{"role":"assistant","content":"a","x":{deep},"tool_calls":{deep}}}"#);
        let whole = format!(r#"{{"usage":{deep},"choices":[{{"message":{message}}}]}}"#);
        let events = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{message}}}]}}\n\ndata: [DONE]\n\n");
        for (kind, answer) in [("application/json", whole), ("text/event-stream", events), ("application/json", deep)] {
            let (_, answered) = block_on(call(MemoryStore::new(), body(), kind, &answer)).unwrap();
            assert!(answered == answer.as_bytes(), "it is passed on unchanged");
        }
    }
}

//! The bytes of requests and responses, over a transport that the test implements.

use std::sync::{Arc, Mutex};
use tower_chat_history_conformance::shorthand::cases;

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use bytes::Bytes;
use proptest::prelude::*;
use reqwest::{Body, Method, Request, Response};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{HistoryStore, MemoryStore};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory, openai_error};

use super::{HEADERS, exchanges, id, log};

type Requests = Arc<Mutex<Vec<Request>>>;

/// Sends one request through the layer, and answers it. Returns the request that the transport received, and the
/// response that the caller got.
async fn exchange(store: impl HistoryStore, request: Request, answer: Response) -> (Request, Response) {
    exchange_by(&OpenAiHistory::new(store), request, answer).await
}

/// Like [`exchange`], with these options.
pub(super) async fn exchange_by(history: &OpenAiHistory, request: Request, answer: Response) -> (Request, Response) {
    let received = Requests::default();
    let answer = Arc::new(Mutex::new(Some(answer)));
    let transport = service_fn({
        let received = Arc::clone(&received);
        move |factory: HttpRequestFactory| {
            let (received, answer) = (Arc::clone(&received), answer.lock().unwrap().take().unwrap());
            async move {
                let request = factory.build().await?;
                received.lock().unwrap().push(request);
                Ok::<_, OpenAIError>(answer)
            }
        }
    });
    let layer = history.layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(layer).service(transport);
    let response = service.oneshot(factory(request)).await.unwrap();
    let request = received.lock().unwrap().remove(0);
    (request, response)
}

pub(super) fn factory(request: Request) -> HttpRequestFactory {
    HttpRequestFactory::new(move || {
        let request = request.try_clone();
        async move { request.ok_or(OpenAIError::InvalidArgument("a streamed body".into())) }
    })
}

pub(super) fn post(path: &str, body: &str) -> Request {
    let mut request = Request::new(Method::POST, format!("http://llm.test{path}").parse().unwrap());
    request.headers_mut().insert(CONVERSATION_ID, id().to_string().parse().unwrap());
    request.headers_mut().insert("content-length", body.len().into());
    request.headers_mut().insert("x-other", "kept".parse().unwrap());
    *request.body_mut() = Some(body.to_owned().into());
    request
}

pub(super) fn answer(kind: Option<&str>, body: impl Into<Body>) -> Response {
    let mut response = http::Response::builder().status(201).header("x-request-id", "r1");
    if let Some(kind) = kind {
        response = response.header("content-type", kind);
    }
    response.body(body.into()).unwrap().into()
}

pub(super) fn body(request: &Request) -> &str {
    std::str::from_utf8(request.body().unwrap().as_bytes().unwrap()).unwrap()
}

pub(super) const ASK: &str =
    r#"{ "messages":[ {"content":"u0","role":"user","cache_control":{"ttl":1.50}} ], "model":"m" }"#;
pub(super) const WHOLE: &str = r#"{"choices":[{"index":0,"message":{ "role":"assistant","content":"a0", "reasoning_content":"\u00e4" },"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn only_a_post_to_chat_completions_is_a_chat_call() {
    let store = MemoryStore::new();
    let models = {
        let mut request = post("/v1/models", "");
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
        request
    };
    let list = {
        let mut request = post("/v1/chat/completions", "");
        *request.method_mut() = Method::GET;
        request
    };
    for mut request in [models, list, post("/v1/responses/compact", ASK), post("/v1/chat/completions/x", ASK)] {
        // The values of the headers are not checked.
        for name in HEADERS {
            request.headers_mut().append(name, "an invalid value".parse().unwrap());
        }
        let original = request.try_clone().unwrap();
        let (request, response) = exchange(store.clone(), request, answer(Some("application/json"), WHOLE)).await;
        assert_eq!((request.url(), request.method()), (original.url(), original.method()));
        assert_eq!(request.body().map(Body::as_bytes), original.body().map(Body::as_bytes));
        assert!(HEADERS.iter().all(|name| !request.headers().contains_key(*name)));
        assert_eq!(request.headers().get("x-other").unwrap(), "kept");
        assert_eq!(response.text().await.unwrap(), WHOLE);
    }
    assert_eq!(log(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_whole_response_is_passed_on_unchanged_and_stored_verbatim() {
    for kind in [Some("application/json; charset=utf-8"), Some("text/plain"), None] {
        let store = MemoryStore::new();
        let ask = post("/openai/deployments/d/chat/completions?api-version=1", ASK);
        let (request, response) = exchange(store.clone(), ask, answer(kind, WHOLE)).await;
        assert_eq!(body(&request), ASK);
        assert_eq!(request.url().query(), Some("api-version=1"));
        assert_eq!((response.status().as_u16(), response.headers()["x-request-id"].as_bytes()), (201, &b"r1"[..]));
        assert_eq!(response.text().await.unwrap(), WHOLE);
        let stored = exchanges(&store).await.remove(0).exchange.messages.clone();
        assert_eq!(stored[0].json(), r#"{"content":"u0","role":"user","cache_control":{"ttl":1.50}}"#);
        assert_eq!(stored[1].json(), r#"{ "role":"assistant","content":"a0", "reasoning_content":"\u00e4" }"#);

        let again = r#"{"n":1,"messages":[{"role":"user","content":"u1"}]}"#;
        let (request, _) = exchange(store, post("/v1/chat/completions", again), answer(kind, WHOLE)).await;
        let window = format!("{},{},", stored[0].json(), stored[1].json());
        assert_eq!(body(&request), again.replace('[', &format!("[{window}")));
        let length = request.headers()["content-length"].to_str().unwrap();
        assert_eq!(length.parse(), Ok(body(&request).len()));
    }
}

#[tokio::test]
async fn a_response_that_is_not_a_completion_is_passed_on_and_not_stored() {
    let store = MemoryStore::new();
    for text in ["<html>", "", r#"{"id":"queued"}"#] {
        for kind in [Some("application/json"), None] {
            let (_, response) = exchange(store.clone(), post("/v1/chat/completions", ASK), answer(kind, text)).await;
            assert_eq!(response.text().await.unwrap(), text);
        }
    }
    assert_eq!(log(&store).await, [""; 0]);
}

fn events(pieces: &[String], end: &str, tail: &str) -> String {
    let mut text = String::from(": hello\n\n");
    for piece in pieces {
        let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        text.push_str(&format!("data: {delta}{end}{end}"));
    }
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    text.push_str(&format!("data: {stop}{end}{end}data: [DONE]{end}{end}{tail}"));
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn a_stream_is_passed_on_byte_for_byte(
        pieces in prop::collection::vec("[a-zä\u{1f600}]{0,4}", 1..5),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        tail in prop::sample::select(vec!["", ": bye\n\n", "\n"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        kind in prop::sample::select(vec![Some("text/event-stream"), Some("Text/Event-Stream; x"), None]),
    ) {
        let text = events(&pieces, end, tail);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| Ok::<_, OpenAIError>(Bytes::copy_from_slice(&text.as_bytes()[pair[0]..pair[1]])));
        let chunks: Vec<_> = chunks.collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (got, logged) = runtime.block_on(async move {
            let store = MemoryStore::new();
            let upstream = answer(kind, Body::wrap_stream(futures_util::stream::iter(chunks)));
            let (_, response) = exchange(store.clone(), post("/v1/chat/completions", ASK), upstream).await;
            assert_eq!(response.status().as_u16(), 201);
            (response.text().await.unwrap(), log(&store).await)
        });
        prop_assert_eq!(got, text);
        prop_assert_eq!(logged, ["user: u0".to_owned(), format!("assistant: {}", pieces.concat())]);
    }
}

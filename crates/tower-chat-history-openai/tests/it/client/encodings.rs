//! Bodies with an encoding that the HTTP client has not decoded.

use std::sync::{Arc, Mutex};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::Response;
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{
    Engine, HistoryOptions, MemoryStore,
    report::{NotStored, ResponseShape, TurnOutcome},
};
use tower_chat_history_openai::client::OpenAiHistory;
use tower_layer::Layer as _;

use super::{
    log,
    raw::{ASK, WHOLE, factory, post},
};

const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03data: {\n\n\xff";

async fn call(encoding: &'static str, kind: &'static str, body: &'static [u8]) -> (Vec<u8>, TurnOutcome, Vec<String>) {
    let (store, outcomes) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let options = HistoryOptions::new().on_turn({
        let outcomes = Arc::clone(&outcomes);
        move |report| outcomes.lock().unwrap().push(report.outcome.clone())
    });
    let transport = service_fn(move |factory: HttpRequestFactory| async move {
        factory.build().await?;
        let response = http::Response::builder().header("content-type", kind).header("content-encoding", encoding);
        Ok::<_, OpenAIError>(Response::from(response.body(body).unwrap()))
    });
    let engine = Engine::with_options(store.clone(), options);
    let service = OpenAiHistory::from_engine(engine).layer().layer(transport);
    let response = service.oneshot(factory(post("/v1/chat/completions", ASK))).await.unwrap();
    assert_eq!(response.headers()["content-encoding"], encoding);
    let bytes = response.bytes().await.unwrap().to_vec();
    let outcome = outcomes.lock().unwrap().remove(0);
    (bytes, outcome, log(&store).await)
}

#[tokio::test]
async fn an_encoded_body_is_passed_on_unchanged_and_not_stored() {
    for encoding in ["gzip", "br", "identity, zstd", "x-own"] {
        for kind in ["application/json", "text/event-stream", "text/plain"] {
            let (bytes, outcome, log) = call(encoding, kind, GZIP).await;
            assert_eq!(bytes, GZIP);
            let encoded = NotStored::UnreadableReply(ResponseShape::Encoded);
            assert!(matches!(outcome, TurnOutcome::NotStored(why) if why == encoded), "{outcome:?}");
            assert_eq!(log, [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_body_without_an_encoding_is_stored() {
    for encoding in ["identity", "IDENTITY", ""] {
        let (bytes, outcome, log) = call(encoding, "application/json", WHOLE.as_bytes()).await;
        assert_eq!(bytes, WHOLE.as_bytes());
        assert!(matches!(outcome, TurnOutcome::Stored { .. }), "{outcome:?}");
        assert_eq!(log, ["user: u0", "assistant: a0"]);
    }
}

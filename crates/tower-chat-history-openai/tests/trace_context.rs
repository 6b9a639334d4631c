//! The requests of the model's calls have the trace context in the header `traceparent`.

#![allow(clippy::unwrap_used)] // A test may.

#[path = "support/traced.rs"]
mod traced;

use std::time::Duration;

use async_openai::{Client, traits::RequestOptionsBuilder as _};
use opentelemetry_sdk::trace::SpanData;
use tower::ServiceExt as _;
use tower_chat_history::MemoryStore;
use tower_chat_history_openai::{
    ChatService,
    client::{OpenAiHistory, STATELESS},
};
use tower_chat_history_test::{ApiFailure, MockServer, Reply};
use traced::{Traced, config, request};
use tracing::Instrument as _;

/// One test: a process has one subscriber and one propagator.
#[tokio::test]
async fn requests_are_in_the_trace_of_their_turn() {
    let traced = Traced::new(true);
    the_parent_is_the_span_of_the_models_call(&traced).await;
    every_attempt_has_the_same_parent(&traced).await;
    without_a_turn_the_parent_is_the_callers_span(&traced).await;
    #[cfg(feature = "recall")]
    embeddings_are_in_the_trace_too(&traced).await;
    without_a_trace_there_is_no_header().await;
}

async fn the_parent_is_the_span_of_the_models_call(traced: &Traced) {
    let server = MockServer::start([(); 4].map(|()| Reply::text("a"))).await.unwrap();
    traced.unary(&server).await;
    traced.stream(&server).await;
    traced.client(&server, false).await;
    traced.client(&server, true).await;
    let (calls, handlers) = (traced.finished("chat m"), traced.finished("handler"));
    assert_eq!((calls.len(), handlers.len()), (4, 4));
    let expected: Vec<String> = calls.iter().map(parent).collect();
    assert_eq!(traceparents(&server), expected);
    for (call, handler) in calls.iter().zip(&handlers) {
        assert_eq!(call.span_context.trace_id(), handler.span_context.trace_id());
    }
    for request in server.requests() {
        assert_eq!(request.header("tracestate"), None, "it is empty");
        assert_eq!(request.header("authorization"), Some("Bearer test"));
    }
}

async fn every_attempt_has_the_same_parent(traced: &Traced) {
    let busy = || Reply::error(ApiFailure::rate_limited(Duration::ZERO));
    let server = MockServer::start([busy(), Reply::text("a"), busy(), Reply::text("a")]).await.unwrap();
    let before = traced.finished("chat m").len();
    traced.unary(&server).await;
    traced.client(&server, false).await;
    let calls: Vec<String> = traced.finished("chat m")[before..].iter().map(parent).collect();
    assert_eq!(traceparents(&server), [&calls[0], &calls[0], &calls[1], &calls[1]].map(String::as_str));
}

async fn without_a_turn_the_parent_is_the_callers_span(traced: &Traced) {
    let server = MockServer::start([(); 2].map(|()| Reply::text("a"))).await.unwrap();
    let before = traced.finished("caller").len();
    let caller = || tracing::info_span!("caller");
    let service = ChatService::new(Client::with_config(config(&server)));
    service.oneshot(request()).instrument(caller()).await.unwrap();
    let client = OpenAiHistory::new(MemoryStore::new()).client(config(&server));
    let stateless = client.chat().header(STATELESS, "true").unwrap();
    stateless.create(request()).instrument(caller()).await.unwrap();
    let callers: Vec<String> = traced.finished("caller")[before..].iter().map(parent).collect();
    assert_eq!(traceparents(&server), callers);
}

#[cfg(feature = "recall")]
async fn embeddings_are_in_the_trace_too(traced: &Traced) {
    let server = MockServer::start([]).await.unwrap();
    let service = tower_chat_history_openai::EmbeddingService::new(Client::with_config(config(&server)), "small");
    service.oneshot(vec!["a".to_owned()]).instrument(tracing::info_span!("embedding caller")).await.unwrap();
    let callers: Vec<String> = traced.finished("embedding caller").iter().map(parent).collect();
    let requests = server.embeddings().requests();
    assert_eq!((callers.len(), requests[0].header("traceparent")), (1, callers.first().map(String::as_str)));
}

async fn without_a_trace_there_is_no_header() {
    let server = MockServer::start([Reply::text("a")]).await.unwrap();
    ChatService::new(Client::with_config(config(&server))).oneshot(request()).await.unwrap();
    assert_eq!(server.requests()[0].header("traceparent"), None);
}

/// Returns the `traceparent` of a request within a sampled span.
fn parent(span: &SpanData) -> String {
    format!("00-{}-{}-01", span.span_context.trace_id(), span.span_context.span_id())
}

/// Returns the `traceparent` of each request.
fn traceparents(server: &MockServer) -> Vec<String> {
    server.requests().iter().map(|request| request.header("traceparent").unwrap().to_owned()).collect()
}

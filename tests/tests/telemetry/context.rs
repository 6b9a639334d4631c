//! The trace context is passed on to the model's client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use opentelemetry::trace::TraceContextExt as _;
use tests::{TypedRequest, user_call};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{ChatHistoryLayer, ConversationId, HistoryOptions, MemoryStore, telemetry};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{MockLlm, Reply};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::trace::traced;

/// Returns the headers that a client would send, the id of the trace in which it is called, and the trace.
async fn sent(telemetry: telemetry::Telemetry) -> (HashMap<String, String>, String, crate::trace::Trace) {
    let headers = Arc::new(Mutex::new(HashMap::new()));
    let (llm, written) = (MockLlm::script([Reply::text("a")]), Arc::clone(&headers));
    let client = service_fn(move |request: TypedRequest| {
        telemetry::inject_context(&mut *written.lock().unwrap());
        let mut llm = llm.unary();
        async move { llm.ready().await?.call(request).await }
    });
    let options = HistoryOptions::new().telemetry(telemetry);
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), OpenAi::new(), options).layer(client);
    let id = ConversationId::new(["tests", "context"]).unwrap();
    let (trace_id, trace) = traced(async {
        chat.oneshot(user_call(&id, "u")).await.unwrap();
        tracing::Span::current().context().span().span_context().trace_id().to_string()
    })
    .await;
    let headers = headers.lock().unwrap().clone();
    (headers, trace_id, trace)
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_client_is_called_within_the_span_of_the_call() {
    let (headers, trace_id, trace) = sent(telemetry::Telemetry::new()).await;
    let span = hex(&trace.one("chat mock").id);
    assert_eq!(headers["traceparent"], format!("00-{trace_id}-{span}-01"));
}

#[tokio::test]
async fn without_a_span_of_the_call_a_client_is_called_within_the_turn() {
    let (headers, trace_id, trace) = sent(telemetry::Telemetry::new().chat_span(false)).await;
    let span = hex(&trace.turn().id);
    assert_eq!(headers["traceparent"], format!("00-{trace_id}-{span}-01"));
}

#[tokio::test]
async fn without_spans_a_client_is_called_within_the_span_of_the_caller() {
    let (headers, trace_id, trace) = sent(telemetry::Telemetry::new().spans(false)).await;
    let span = hex(&trace.test.id);
    assert_eq!(headers["traceparent"], format!("00-{trace_id}-{span}-01"));
}

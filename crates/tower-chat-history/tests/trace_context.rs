//! Requests have the trace context of the model's call in the header `traceparent`.

#![allow(clippy::unwrap_used)] // A test may.

use std::sync::{Arc, Mutex};

use http::{HeaderMap, Request, Response};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider},
};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{
    ChatHistoryLayer, MemoryStore,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
    telemetry::inject_headers,
};
use tracing_subscriber::layer::SubscriberExt as _;

/// One test: a process has one subscriber and one propagator.
#[tokio::test]
async fn requests_are_in_the_trace_of_their_turn() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans)).unwrap();
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());

    let received = Arc::new(Mutex::new(Vec::<HeaderMap>::new()));
    let client = service_fn({
        let received = Arc::clone(&received);
        move |request: Request<HistoryBody>| {
            received.lock().unwrap().push(request.headers().clone());
            let answer = r#"{"choices":[{"message":{"role":"assistant","content":"a"}}]}"#;
            async move { Ok::<_, BoxError>(Response::new(answer.to_owned())) }
        }
    });
    let history = ChatHistoryLayer::new(MemoryStore::new(), HttpHistory::new());
    let with_context = |mut request: Request<HistoryBody>| {
        inject_headers(request.headers_mut());
        request
    };
    let chat = ServiceBuilder::new().layer(history).map_request(with_context).service(client);
    let request =
        |path: &str| Request::post(path).header(CONVERSATION_ID, "acme").header("traceparent", "the caller's");
    let ask = r#"{"model":"m","messages":[{"role":"user","content":"u"}]}"#.to_owned();
    chat.clone().oneshot(request("/v1/chat/completions").body(ask).unwrap()).await.unwrap();
    chat.oneshot(request("/v1/models").body(String::new()).unwrap()).await.unwrap();

    provider.force_flush().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let call = spans.iter().find(|span| span.name == "chat m").unwrap();
    let context = &call.span_context;
    let received = received.lock().unwrap();
    assert_eq!(received[0]["traceparent"], format!("00-{}-{}-01", context.trace_id(), context.span_id()));
    assert_eq!(received[0].get("tracestate"), None, "it is empty");
    assert_eq!(received[1]["traceparent"], "the caller's", "there is no span");
}

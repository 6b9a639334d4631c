//! Tests of the program `jaeger`: the traces that it sends over OTLP.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, status::StatusCode as SpanStatus},
};
use prost::Message as _;
use tokio::net::{TcpListener, TcpSocket};

/// The requests that an OTLP/HTTP receiver has received.
#[derive(Clone, Default)]
struct Received {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

impl Received {
    /// Starts a receiver of traces, and optionally of metrics.
    async fn serve(accepts_metrics: bool) -> (Self, SocketAddr) {
        let received = Self::default();
        let mut routes = Router::new().route("/v1/traces", post(receive_traces));
        if accepts_metrics {
            routes = routes.route("/v1/metrics", post(receive_metrics));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = routes.with_state(received.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        (received, address)
    }

    fn services(&self) -> Vec<String> {
        let requests = self.traces.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.map(|of| text(&of.resource.as_ref().unwrap().attributes, "service.name").unwrap()).collect()
    }

    fn traces(&self) -> Vec<Trace> {
        let requests = self.traces.lock().unwrap();
        let mut traces: HashMap<Vec<u8>, Vec<Span>> = HashMap::new();
        for span in requests.iter().flat_map(|request| &request.resource_spans).flat_map(|of| &of.scope_spans) {
            for span in &span.spans {
                traces.entry(span.trace_id.clone()).or_default().push(span.clone());
            }
        }
        let mut traces: Vec<_> = traces.into_values().map(Trace::of).collect();
        traces.sort_by_key(|trace| trace.0[0].start_time_unix_nano);
        traces
    }

    fn metrics(&self) -> Vec<String> {
        let requests = self.metrics.lock().unwrap();
        let scopes = requests.iter().flat_map(|request| &request.resource_metrics).flat_map(|of| &of.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.clone()).collect()
    }
}

async fn receive_traces(State(received): State<Received>, body: Bytes) -> StatusCode {
    received.traces.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    StatusCode::OK
}

async fn receive_metrics(State(received): State<Received>, body: Bytes) -> StatusCode {
    received.metrics.lock().unwrap().push(ExportMetricsServiceRequest::decode(body).unwrap());
    StatusCode::OK
}

/// The spans of one trace, by start time.
struct Trace(Vec<Span>);

impl Trace {
    fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_by_key(|span| span.start_time_unix_nano);
        Self(spans)
    }

    /// Returns the label that the demo gives the trace.
    fn shows(&self) -> String {
        text(&self.0[0].attributes, "demo.shows").unwrap()
    }

    /// Returns the names of the spans, with the children of each in parentheses.
    fn tree(&self) -> String {
        self.below(&[]).trim().to_owned()
    }

    fn below(&self, parent: &[u8]) -> String {
        let children = self.0.iter().filter(|span| span.parent_span_id == parent);
        let child = |span: &Span| match self.below(&span.span_id) {
            below if below.is_empty() => span.name.clone(),
            below => format!("{}({below})", span.name),
        };
        children.map(child).collect::<Vec<_>>().join(", ")
    }

    /// Returns the attribute of the last span with this name.
    fn last(&self, name: &str, key: &str) -> Option<String> {
        let span = self.0.iter().rev().find(|span| span.name == name)?;
        text(&span.attributes, key)
    }

    fn failed(&self) -> Vec<&str> {
        let is_failed = |span: &&Span| span.status.as_ref().is_some_and(|of| of.code() == SpanStatus::Error);
        self.0.iter().filter(is_failed).map(|span| &*span.name).collect()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}

async fn demo(
    protocol: &'static str,
    address: SocketAddr,
    arguments: &'static [&'static str],
) -> (Output, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jaeger"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command
        .args(["--pace", "0"])
        .args(arguments)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")
        .env("NO_PROXY", "127.0.0.1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

const TURN: &str = "POST /chat(chat_history(load, trim, chat gpt-4o, save))";

#[tokio::test]
async fn every_scene_is_a_trace() {
    let (received, address) = Received::serve(true).await;
    let (output, out, err) = demo("http/protobuf", address, &[]).await;
    assert!(output.status.success() && err.is_empty(), "{err}");
    assert!(out.ends_with("All traces were sent.\n"), "{out}");
    assert!(received.services().iter().all(|name| name == "chat-history-demo"));

    let traces = received.traces();
    let about = |shows: &str| traces.iter().filter(|trace| trace.shows() == shows).collect::<Vec<_>>();
    let only = |shows: &str| match &*about(shows) {
        [trace] => *trace,
        found => panic!("{} traces show {shows}", found.len()),
    };

    let grows = about("a conversation grows until it is trimmed");
    let loaded: Vec<_> =
        grows.iter().map(|trace| trace.last("load", "chat_history.messages.loaded").unwrap()).collect();
    assert_eq!(loaded, ["0", "2", "4", "6", "8"]);
    assert!(grows.iter().all(|trace| trace.tree() == TURN && trace.failed().is_empty()));
    let strategies: Vec<_> = grows.iter().map(|trace| trace.last("trim", "chat_history.trim.strategy")).collect();
    assert_eq!(strategies, [None, None, None, None, Some("turns".to_owned())]);
    assert_eq!(grows[4].last("load", "db.system.name").as_deref(), Some("sqlite"));

    let agent = only("old tool results are cleared");
    let round = "chat_history(load, trim, chat gpt-4o, save)";
    let tool = "execute_tool search_hotels";
    let rounds = [round, tool, round, tool, round, tool, round].join(", ");
    assert_eq!(agent.tree(), format!("POST /agent({rounds})"));
    assert_eq!(agent.last("trim", "chat_history.trim.strategy").as_deref(), Some("clear_results"));

    let background = about("a summary is made in the background");
    let summarized = background.last().unwrap();
    let summary = "summarize(chat gpt-4.1-mini)";
    let done = format!("load, trim, chat gpt-4o, save, load, {summary}");
    assert_eq!(summarized.tree(), format!("POST /chat(chat_history({done}))"));
    assert_eq!(summarized.last("summarize", "chat_history.summary.waited_for").as_deref(), Some("false"));

    let recalled = only("an earlier message is shown again");
    assert_eq!(recalled.tree(), "POST /chat(chat_history(load, trim, recall, chat gpt-4o, save))");
    assert_eq!(recalled.last("recall", "chat_history.recall.outcome").as_deref(), Some("shown"));
    assert!(recalled.last("recall", "chat_history.recall.score").is_some());

    let waits = only("a call waits for an earlier one, and for a summary");
    let planned = format!("wait, load, trim, {summary}, load, trim, chat gpt-4o, save");
    assert_eq!(waits.tree(), format!("POST /chat(chat_history({planned}))"));
    assert_eq!(waits.last("summarize", "chat_history.summary.waited_for").as_deref(), Some("true"));

    let streamed = only("a streamed reply");
    assert_eq!(streamed.last("chat_history", "chat_history.streamed").as_deref(), Some("true"));
    assert!(streamed.last("chat gpt-4o", "gen_ai.response.time_to_first_chunk").is_some());
    assert!(streamed.last("chat gpt-4o", "gen_ai.usage.output_tokens").is_some());

    let dropped = only("the caller disconnects");
    assert_eq!(dropped.tree(), "POST /chat/stream(chat_history(load, trim, chat gpt-4o))");
    assert_eq!(dropped.last("chat_history", "chat_history.outcome").as_deref(), Some("interrupted"));
    assert!(dropped.failed().is_empty());

    let failed = only("the model fails");
    assert_eq!(failed.tree(), "POST /chat(chat_history(load, trim, chat gpt-4o))");
    assert_eq!(failed.failed(), ["POST /chat", "chat_history", "chat gpt-4o"]);
    assert_eq!(failed.last("chat gpt-4o", "error.type").as_deref(), Some("503"));

    for (shows, conflict, failed) in [
        ("another process was faster: rebased", "rebased", &[][..]),
        ("another process was faster: rejected", "rejected", &["chat_history", "save"][..]),
    ] {
        let trace = only(shows);
        assert_eq!(trace.last("save", "chat_history.save.conflict").as_deref(), Some(conflict));
        assert_eq!(trace.failed(), failed, "{shows}");
    }

    for span in traces.iter().flat_map(|trace| &trace.0) {
        let keys: HashSet<_> = span.attributes.iter().map(|attribute| &attribute.key).collect();
        assert_eq!(keys.len(), span.attributes.len(), "each attribute occurs once: {span:?}");
    }
    assert!(traces.iter().all(|trace| trace.last("chat_history", "gen_ai.conversation.id").is_none()));
    assert!(received.metrics().iter().any(|name| name == "chat_history.turns"));
    assert_eq!(out.matches("  trace ").count(), traces.len(), "each trace is printed:\n{out}");
}

#[tokio::test]
async fn conversation_ids_are_optional_and_a_receiver_may_accept_no_metrics() {
    let (received, address) = Received::serve(false).await;
    let (output, out, err) = demo("http/protobuf", address, &["--conversation-ids", "raw"]).await;
    assert!(output.status.success() && err.is_empty(), "{err}");
    assert!(out.contains("All traces were sent. The metrics could not be sent:"), "{out}");
    let name = |trace: &Trace| trace.last("chat_history", "gen_ai.conversation.id");
    assert!(received.traces().iter().any(|trace| name(trace).as_deref() == Some("demo/user-42/trims")));
}

#[tokio::test]
async fn without_a_receiver_the_program_prints_an_error_and_fails() {
    // The socket keeps its port and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    for protocol in ["grpc", "http/protobuf"] {
        let (output, out, err) = demo(protocol, address, &[]).await;
        assert_eq!(output.status.code(), Some(1), "{protocol}");
        assert!(err.contains(&format!("the traces could not be sent: http://{address}")), "{err}");
        assert!(err.contains("Is Jaeger running?"), "{err}");
        assert!(!out.contains("An agent"), "the program ends with the first scene that cannot be sent: {out}");
    }
}

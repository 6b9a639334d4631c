//! The trace of one test, and checks of every trace.

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{names::check_names, otlp::pipeline, seen::ReceivedSpan};

/// The span around everything that a test does.
const TEST: &str = "test";

/// The spans, in the order of their starts.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) test: ReceivedSpan,
    pub(crate) spans: Vec<ReceivedSpan>,
}

/// Runs a future in a new trace, and returns the trace after its last span has ended. Fails if the trace
/// breaks a rule that holds for every trace.
pub(crate) async fn traced<T>(turns: impl Future<Output = T>) -> (T, Trace) {
    let pipeline = pipeline();
    let test = tracing::info_span!(parent: None, TEST);
    let trace = test.context().span().span_context().trace_id();
    let output = turns.instrument(test.clone()).await;
    drop(test);
    let spans = pipeline.trace(trace, TEST).await;
    let (mut tests, mut spans): (Vec<_>, Vec<_>) =
        spans.into_iter().map(ReceivedSpan::from).partition(|span| span.name == TEST);
    spans.sort_by_key(|span| span.start);
    let trace = Trace { test: tests.remove(0), spans };
    assert!(tests.is_empty());
    trace.check();
    (output, trace)
}

impl Trace {
    /// Returns the spans as a tree in the order of time: names, indented by depth. Failed spans have `!` and
    /// the error.
    pub(crate) fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.add(&self.test, "", &mut lines);
        lines
    }

    fn add(&self, parent: &ReceivedSpan, indent: &str, lines: &mut Vec<String>) {
        for child in self.within(parent) {
            let failed = if child.is_error {
                format!(" !{}", child["error.type"].as_str().unwrap_or("panicked"))
            } else {
                String::new()
            };
            lines.push(format!("{indent}{}{failed}", child.name));
            self.add(child, &format!("{indent}  "), lines);
        }
    }

    /// Returns the spans with this name.
    pub(crate) fn all(&self, name: &str) -> Vec<&ReceivedSpan> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// Returns the only span with this name.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> &ReceivedSpan {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "spans of the name {name} in {:#?}", self.tree());
        all[0]
    }

    /// Returns the last turn.
    #[track_caller]
    pub(crate) fn turn(&self) -> &ReceivedSpan {
        self.all("chat_history").last().unwrap()
    }

    /// Returns the spans directly within a span.
    pub(crate) fn within<'a>(&'a self, parent: &'a ReceivedSpan) -> impl Iterator<Item = &'a ReceivedSpan> {
        self.spans.iter().filter(|span| span.parent == parent.id)
    }

    /// Asserts that the spans within each turn do not overlap.
    #[track_caller]
    pub(crate) fn assert_sequential(&self) {
        for turn in self.all("chat_history") {
            let within: Vec<_> = self.within(turn).collect();
            for pair in within.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{} and {}", pair[0].name, pair[1].name);
            }
        }
    }

    fn check(&self) {
        // The spans of results that are stored without a turn are directly within the test's span.
        let turn = if self.all("chat_history").is_empty() { TEST } else { "chat_history" };
        for span in &self.spans {
            let found = self.spans.iter().chain([&self.test]).find(|parent| parent.id == span.parent);
            let parent = found.unwrap_or_else(|| panic!("an orphan: {span:#?}"));
            assert!(parent.start <= span.start, "{} starts before {}", span.name, parent.name);
            assert!(span.start <= span.end, "{span:#?}");
            // A subscriber sees a panic in the caller's code as an event, which turns the span into an error.
            let panicked = span.events.iter().any(|event| event.name.contains("panicked"));
            assert!(span.is_error || !span.has("error.type"), "a failed span has the error status: {span:#?}");
            assert!(
                !span.is_error || span.has("error.type") || panicked,
                "a span with the error status has an error type: {span:#?}"
            );
            check_kind(span, parent, turn);
            check_names(span);
        }
    }
}

fn check_kind(span: &ReceivedSpan, parent: &ReceivedSpan, turn: &str) {
    let (kind, within) = match span.name.split(' ').next().unwrap() {
        "chat_history" => (SpanKind::Internal, TEST),
        // A store that is a database runs in another process.
        "load" | "save" if span.has("db.system.name") => (SpanKind::Client, turn),
        "load" | "prepare" | "recall" | "save" | "summarize" | "trim" | "wait" => (SpanKind::Internal, turn),
        "chat" if parent.name == "summarize" => (SpanKind::Client, "summarize"),
        "chat" => (SpanKind::Client, turn),
        other => panic!("unknown span {other}"),
    };
    assert_eq!((span.kind, &*parent.name), (kind, within), "{span:#?}");
    if span.name == "save" {
        assert!(span.end <= parent.end, "a turn ends when its exchange is stored");
    }
}

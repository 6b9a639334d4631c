//! One test's trace, and what holds of every one.

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{names::check_names, otlp::pipeline, seen::Seen};

/// The span around everything that a test does.
const TEST: &str = "test";

/// Spans in the order of their starts.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) test: Seen,
    pub(crate) spans: Vec<Seen>,
}

/// Does something, and returns what was exported of it: after the last span has ended. What is not what every trace must be,
/// fails here.
pub(crate) async fn traced<T>(turns: impl Future<Output = T>) -> (T, Trace) {
    let pipeline = pipeline();
    let test = tracing::info_span!(parent: None, TEST);
    let trace = test.context().span().span_context().trace_id();
    let output = turns.instrument(test.clone()).await;
    drop(test);
    let spans = pipeline.trace(trace, TEST).await;
    let (mut tests, mut spans): (Vec<_>, Vec<_>) =
        spans.into_iter().map(Seen::from).partition(|span| span.name == TEST);
    spans.sort_by_key(|span| span.start);
    let trace = Trace { test: tests.remove(0), spans };
    assert!(tests.is_empty());
    trace.check();
    (output, trace)
}

impl Trace {
    /// The spans as a tree in the order of time, by their names and depth. Those that failed say what.
    pub(crate) fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.add(&self.test, "", &mut lines);
        lines
    }

    fn add(&self, parent: &Seen, indent: &str, lines: &mut Vec<String>) {
        for child in self.within(parent) {
            let failed = if child.is_red {
                format!(" !{}", child["error.type"].as_str().unwrap_or("panicked"))
            } else {
                String::new()
            };
            lines.push(format!("{indent}{}{failed}", child.name));
            self.add(child, &format!("{indent}  "), lines);
        }
    }

    /// The spans of that name.
    pub(crate) fn all(&self, name: &str) -> Vec<&Seen> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// The span of that name, of which there is one.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> &Seen {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "spans of the name {name} in {:#?}", self.tree());
        all[0]
    }

    /// The last turn.
    #[track_caller]
    pub(crate) fn turn(&self) -> &Seen {
        self.all("chat_history").last().unwrap()
    }

    /// What is directly within a span.
    pub(crate) fn within<'a>(&'a self, parent: &'a Seen) -> impl Iterator<Item = &'a Seen> {
        self.spans.iter().filter(|span| span.parent == parent.id)
    }

    /// Asserts that of what is within each turn nothing begins before what came before it has ended.
    #[track_caller]
    pub(crate) fn is_one_after_the_other(&self) {
        for turn in self.all("chat_history") {
            let within: Vec<_> = self.within(turn).collect();
            for pair in within.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{} and {}", pair[0].name, pair[1].name);
            }
        }
    }

    fn check(&self) {
        // Results that are stored without a turn have no span of their own.
        let turn = if self.all("chat_history").is_empty() { TEST } else { "chat_history" };
        for span in &self.spans {
            let found = self.spans.iter().chain([&self.test]).find(|parent| parent.id == span.parent);
            let parent = found.unwrap_or_else(|| panic!("an orphan: {span:#?}"));
            assert!(parent.start <= span.start, "{} starts before {}", span.name, parent.name);
            assert!(span.start <= span.end, "{span:#?}");
            // What a subscriber sees of a panic in the caller's own parts is an event, and that makes a span red.
            let panicked = span.events.iter().any(|event| event.name.contains("panicked"));
            assert!(span.is_red || !span.has("error.type"), "what failed is red: {span:#?}");
            assert!(!span.is_red || span.has("error.type") || panicked, "what is red says what failed: {span:#?}");
            check_kind(span, parent, turn);
            check_names(span);
        }
    }
}

fn check_kind(span: &Seen, parent: &Seen, turn: &str) {
    let (kind, within) = match span.name.split(' ').next().unwrap() {
        "chat_history" => (SpanKind::Internal, TEST),
        // A store that is a database is somewhere else.
        "load" | "save" if span.has("db.system.name") => (SpanKind::Client, turn),
        "load" | "save" | "summarize" | "trim" | "wait" => (SpanKind::Internal, turn),
        "chat" if parent.name == "summarize" => (SpanKind::Client, "summarize"),
        "chat" => (SpanKind::Client, turn),
        other => panic!("no span is called {other}"),
    };
    assert_eq!((span.kind, &*parent.name), (kind, within), "{span:#?}");
    if span.name == "save" {
        assert!(span.end <= parent.end, "a turn ends when its exchange is stored");
    }
}

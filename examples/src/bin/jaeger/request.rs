//! One request of the demo's service: the span that a turn stands within.

use opentelemetry::trace::TraceContextExt as _;
use tracing::{Span, field::Empty, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// A request, as a web framework's middleware would have made a span of it. Each one is a trace.
pub(crate) struct Request {
    pub(crate) span: Span,
    route: &'static str,
}

impl Request {
    pub(crate) fn post(route: &'static str, shows: &'static str) -> Self {
        let span = info_span!(
            parent: None,
            "request",
            otel.name = format!("POST {route}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = "POST",
            http.route = route,
            http.response.status_code = Empty,
            demo.shows = shows,
        );
        Self { span, route }
    }

    /// Ends it with that status. What is not over yet goes on within the trace.
    pub(crate) fn ends(self, status: u16) -> String {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        let trace = self.span.context().span().span_context().trace_id();
        format!("POST {:<12}  trace {trace}  {status}", self.route)
    }
}

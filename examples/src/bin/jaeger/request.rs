//! One request to the demo's service: the parent span of its turns.

use opentelemetry::trace::TraceContextExt as _;
use tracing::{Span, field::Empty, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// A request with its span, as a web framework's middleware would create it. Each request is one trace.
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

    /// Ends the request with this status, and returns a line about it. Other spans of the trace may still be open.
    pub(crate) fn end(self, status: u16) -> String {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        let trace = self.span.context().span().span_context().trace_id();
        format!("POST {:<12}  trace {trace}  {status}", self.route)
    }
}

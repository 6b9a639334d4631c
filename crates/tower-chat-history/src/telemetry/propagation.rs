//! Passing the trace context to the model's provider.

use opentelemetry::{Context, global, propagation::Injector, trace::TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Writes the trace context of the current span into the headers of a request. If the span has none, writes
/// OpenTelemetry's current context. The format is that of the program's
/// [propagator](opentelemetry::global::set_text_map_propagator): `traceparent` and `tracestate` for the W3C
/// propagator.
///
/// The layer calls its inner service within the span of the model call. If a client calls this function there, its
/// request becomes part of the turn's trace. The services and the client of `tower-chat-history-openai` do so with
/// their feature `otel`.
pub fn inject_context(headers: &mut dyn Injector) {
    let span = Span::current().context();
    let context = if span.has_active_span() { span } else { Context::current() };
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, headers));
}

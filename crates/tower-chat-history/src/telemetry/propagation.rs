//! The trace goes on where the model's call does.

use opentelemetry::{Context, global, propagation::Injector, trace::TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Writes the context of the current span (or OpenTelemetry's own current context, where that span has none) into the headers of a
/// request, by the program's
/// [propagator](opentelemetry::global::set_text_map_propagator): `traceparent` and `tracestate`, if that is W3C's.
///
/// The layer's inner service is called within the span of the model's call, so a client that does this has its request in the
/// turn's trace. The services and the client of `tower-chat-history-openai` do it with their feature `otel`.
pub fn inject_context(headers: &mut dyn Injector) {
    let span = Span::current().context();
    let context = if span.has_active_span() { span } else { Context::current() };
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, headers));
}

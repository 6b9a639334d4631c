//! The trace goes on where the model's call does.

use opentelemetry::{global, propagation::Injector};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Writes the current span's context into the headers of a request, by the program's
/// [propagator](opentelemetry::global::set_text_map_propagator): `traceparent` and `tracestate`, if that is W3C's.
///
/// The layer's inner service is called within the span of the model's call, so a client that does this has its request in the
/// turn's trace. The services and the client of `tower-chat-history-openai` do it with their feature `otel`.
pub fn inject_context(headers: &mut dyn Injector) {
    let context = Span::current().context();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, headers));
}

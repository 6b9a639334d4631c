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
/// their feature `otel`, and so does the `TraceContextLayer` of `tower-chat-history-http`.
pub fn inject_context(headers: &mut dyn Injector) {
    let span = Span::current().context();
    let context = if span.has_active_span() { span } else { Context::current() };
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, headers));
}

/// Writes the trace context of the current span into the headers of an HTTP request, as [`inject_context`] does
/// (feature `http`). Names and values that are invalid in headers are left out, so that the call does not fail. Empty
/// values are left out, too, because `tracestate` is mostly empty.
#[cfg(feature = "http")]
pub fn inject_headers(headers: &mut http::HeaderMap) {
    inject_context(&mut Headers(headers));
}

#[cfg(feature = "http")]
struct Headers<'a>(&'a mut http::HeaderMap);

#[cfg(feature = "http")]
impl Injector for Headers<'_> {
    fn set(&mut self, name: &str, value: String) {
        if value.is_empty() {
            return;
        }
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn invalid_and_empty_headers_are_skipped() {
        let mut headers = HeaderMap::new();
        let mut injector = Headers(&mut headers);
        for (name, value) in
            [("a b", "1"), ("broken", "1\n2"), ("tracestate", ""), ("TraceParent", "1"), ("traceparent", "2")]
        {
            injector.set(name, value.to_owned());
        }
        assert_eq!(
            headers,
            [(HeaderName::from_static("traceparent"), HeaderValue::from_static("2"))].into_iter().collect()
        );
    }
}

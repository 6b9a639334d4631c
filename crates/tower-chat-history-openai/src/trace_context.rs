//! The trace context in the headers of requests.

use opentelemetry::propagation::Injector;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tower_chat_history::telemetry;

/// Writes the context of the current span to a request's headers, with the program's propagator.
pub(crate) fn inject(headers: &mut HeaderMap) {
    telemetry::inject_context(&mut Headers(headers));
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    /// Sets a header. Names and values that are invalid in headers are skipped, so that the call does not fail. Empty
    /// values are skipped too: `tracestate` is mostly empty.
    fn set(&mut self, name: &str, value: String) {
        if value.is_empty() {
            return;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
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

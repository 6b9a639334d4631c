//! The trace goes on where the request goes.

use opentelemetry::propagation::Injector;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tower_chat_history::telemetry;

/// Writes the current span's context into a request's headers, by the program's propagator.
pub(crate) fn inject(headers: &mut HeaderMap) {
    telemetry::inject_context(&mut Headers(headers));
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    /// What cannot be a header is left out: a call must not fail for it. So is what is empty, as `tracestate` mostly is.
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
    fn what_cannot_be_a_header_is_left_out() {
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

//! Requests have no headers of a trace context without the feature `otel`, and with the feature but without a
//! propagator.

#![allow(clippy::unwrap_used)] // A test may.

#[path = "support/traced.rs"]
mod traced;

use tower_chat_history_test::{MockServer, Reply};
use traced::Traced;

#[tokio::test]
async fn without_a_propagator_or_the_feature_no_headers_are_added() {
    let traced = Traced::new(cfg!(not(feature = "otel")));
    let server = MockServer::start([(); 4].map(|()| Reply::text("a"))).await.unwrap();
    traced.unary(&server).await;
    traced.stream(&server).await;
    traced.client(&server, false).await;
    traced.client(&server, true).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        for name in ["traceparent", "tracestate", "baggage"] {
            assert_eq!(request.header(name), None);
        }
    }
    // There were traces.
    assert_eq!(traced.finished("chat m").len(), 4);
}

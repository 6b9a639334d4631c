//! The trace context in the headers of requests.

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use crate::telemetry;

/// A layer that writes the context of the current span to the headers of each request, with the program's
/// [propagator](crate::telemetry) (feature `otel`).
///
/// Put it inside of [`ChatHistoryLayer`](crate::ChatHistoryLayer). The provider's spans are then children
/// of the model's call.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TraceContextLayer;

impl TraceContextLayer {
    /// Creates the layer.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for TraceContextLayer {
    type Service = TraceContext<S>;

    fn layer(&self, inner: S) -> TraceContext<S> {
        TraceContext { inner }
    }
}

/// The service of [`TraceContextLayer`].
#[derive(Clone, Debug)]
pub struct TraceContext<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for TraceContext<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        telemetry::inject_headers(request.headers_mut());
        self.inner.call(request)
    }
}

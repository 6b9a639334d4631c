//! The layer over HTTP requests, with a plain HTTP client.

mod bytes;
mod dialects;

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use reqwest::Body;
use tower::Service;
use tower_chat_history::http::HistoryBody;

/// An HTTP client without an SDK, as a service.
#[derive(Clone)]
pub(crate) struct HttpClient(reqwest::Client);

impl HttpClient {
    pub(crate) fn new() -> Self {
        Self(reqwest::Client::builder().no_proxy().build().unwrap())
    }
}

impl Service<Request<HistoryBody>> for HttpClient {
    type Response = Response<Body>;
    type Error = reqwest::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, reqwest::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<HistoryBody>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.map(Body::wrap))?;
            client.execute(request).await.map(Response::from)
        })
    }
}

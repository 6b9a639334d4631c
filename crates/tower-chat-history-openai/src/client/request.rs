//! The requests that are sent.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use reqwest::Request;
use tower_chat_history::{
    BoxError,
    adapt::{Draft, ModelRequest, Prompt},
    http::{Splice, parts},
};

/// Returns the factory of the requests that are sent: without the headers of the HTTP layer, with the current trace
/// context, and with `body` if it is given.
///
/// `first` is the request that was built for reading, if it is not used yet. The first attempt uses it, because
/// building may read a file. Each further attempt builds a new request, as the client expects.
pub(super) fn outgoing(factory: HttpRequestFactory, first: Option<Request>, body: Option<Bytes>) -> HttpRequestFactory {
    let first = Arc::new(Mutex::new(first));
    HttpRequestFactory::new(move || {
        let (factory, first, body) = (factory.clone(), Arc::clone(&first), body.clone());
        async move {
            let built = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut request = match built {
                Some(request) => request,
                None => factory.build().await?,
            };
            parts::strip_headers(request.headers_mut());
            #[cfg(feature = "otel")]
            tower_chat_history::telemetry::inject_headers(request.headers_mut());
            if let Some(body) = body {
                parts::fit_headers(request.headers_mut(), body.len());
                *request.body_mut() = Some(body.into());
            }
            Ok(request)
        }
    })
}

/// A chat call of the client integration that waits for its history.
pub struct HttpDraft {
    pub(super) factory: HttpRequestFactory,
    /// The request that was built for reading. A repeated call builds another one.
    pub(super) first: Option<Request>,
    pub(super) body: Splice,
}

impl Draft for HttpDraft {
    type Request = HttpRequestFactory;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<HttpRequestFactory>, BoxError> {
        // Messages are sent as their JSON, so none is downgraded.
        let body = self.body.with(prompt);
        Ok(ModelRequest::new(outgoing(self.factory, self.first, body), 0))
    }

    fn again(&self) -> Option<Self> {
        Some(Self { factory: self.factory.clone(), first: None, body: self.body.clone() })
    }
}

impl fmt::Debug for HttpDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDraft").finish_non_exhaustive()
    }
}

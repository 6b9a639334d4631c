//! Requests: the recognition of chat calls, and the requests that are sent.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use reqwest::{
    Method, Request, Url,
    header::{CONTENT_LENGTH, HeaderValue},
};
use tower_chat_history::{
    BoxError,
    adapt::{Completed, Draft, Prompt},
};

use super::{body::ChatBody, headers};
use crate::adapter::PROVIDER;

/// Returns `true` if the request creates a chat completion. Only the end of the path is compared, so that Azure's
/// deployments and gateways are recognized too.
pub(super) fn is_chat(request: &Request) -> bool {
    request.method() == Method::POST && request.url().path().trim_end_matches('/').ends_with("/chat/completions")
}

/// Warns about a call of a conversational endpoint for which this crate has no history, once per process for each
/// endpoint.
pub(super) fn warn_without_memory(request: &Request) {
    static RESPONSES: AtomicBool = AtomicBool::new(false);
    static THREADS: AtomicBool = AtomicBool::new(false);
    let path = request.url().path();
    let (endpoint, warned) = if request.method() != Method::POST {
        return;
    } else if path.trim_end_matches('/').ends_with("/responses") {
        ("responses", &RESPONSES)
    } else if path.split('/').any(|segment| segment == "threads") {
        ("threads", &THREADS)
    } else {
        return;
    };
    if !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            endpoint,
            "calls of this endpoint pass through without memory, because only chat completions have history; \
             mark such calls as stateless to avoid this warning"
        );
    }
}

/// Returns the provider. Azure is recognized by its hosts, or by a deployment in the path.
pub(super) fn provider(url: &Url) -> &'static str {
    let by_host = url.host_str().is_some_and(|host| host.ends_with(".openai.azure.com"));
    if by_host || url.path().contains("/openai/deployments/") { "azure.ai.openai" } else { PROVIDER }
}

/// Returns the factory of the requests that are sent: without the headers of this module, with the current trace
/// context, and with `body` if it is given.
///
/// `first` is the request that was built for reading. The first attempt uses it, because building may read a file. Each
/// further attempt builds a new request, as the client expects.
pub(super) fn outgoing(factory: HttpRequestFactory, first: Request, body: Option<Bytes>) -> HttpRequestFactory {
    let first = Arc::new(Mutex::new(Some(first)));
    HttpRequestFactory::new(move || {
        let (factory, first, body) = (factory.clone(), Arc::clone(&first), body.clone());
        async move {
            let built = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut request = match built {
                Some(request) => request,
                None => factory.build().await?,
            };
            headers::strip(request.headers_mut());
            #[cfg(feature = "otel")]
            crate::trace_context::inject(request.headers_mut());
            if let Some(body) = body {
                // The transport sets this header itself if it is missing. An existing header has the length of the old
                // body.
                if request.headers().contains_key(CONTENT_LENGTH) {
                    request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                }
                *request.body_mut() = Some(body.into());
            }
            Ok(request)
        }
    })
}

/// A chat call of the client integration that waits for its history.
pub struct HttpDraft {
    pub(super) factory: HttpRequestFactory,
    pub(super) first: Request,
    pub(super) body: ChatBody,
}

impl Draft for HttpDraft {
    type Request = HttpRequestFactory;

    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<HttpRequestFactory>, BoxError> {
        // Messages are sent as their JSON, so none is downgraded.
        let body = self.body.with_window(prompt.window, prompt.reply_limit);
        Ok(Completed::new(outgoing(self.factory, self.first, Some(body)), 0))
    }
}

impl fmt::Debug for HttpDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDraft").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azure_is_recognized_by_its_addresses() {
        for (url, expected) in [
            ("https://api.openai.com/v1/chat/completions", "openai"),
            ("https://api.groq.com/openai/v1/chat/completions", "openai"),
            ("https://mine.openai.azure.com/openai/v1/chat/completions", "azure.ai.openai"),
            ("https://gateway.test/openai/deployments/d/chat/completions?api-version=1", "azure.ai.openai"),
        ] {
            assert_eq!(provider(&url.parse().unwrap()), expected, "{url}");
        }
    }
}

//! Requests: which of them are chat calls, and how they are sent on.

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

/// Whether this creates a chat completion. By the end of the path, so that Azure's deployments and gateways are found too.
pub(super) fn is_chat(request: &Request) -> bool {
    request.method() == Method::POST && request.url().path().trim_end_matches('/').ends_with("/chat/completions")
}

/// Warns, once a process for each endpoint, that a call looks like a conversation's and has no memory here.
pub(super) fn warn_without_memory(request: &Request) {
    static RESPONSES: AtomicBool = AtomicBool::new(false);
    static THREADS: AtomicBool = AtomicBool::new(false);
    let path = request.url().path();
    let (endpoint, told) = if request.method() != Method::POST {
        return;
    } else if path.trim_end_matches('/').ends_with("/responses") {
        ("responses", &RESPONSES)
    } else if path.split('/').any(|segment| segment == "threads") {
        ("threads", &THREADS)
    } else {
        return;
    };
    if !told.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            endpoint,
            "calls of this endpoint pass through without memory: only chat completions have history; \
             a call that is marked as stateless is not warned of"
        );
    }
}

/// Who serves the model, as far as the address tells: Azure has its own hosts, and deployments in the path.
pub(super) fn provider(url: &Url) -> &'static str {
    let by_host = url.host_str().is_some_and(|host| host.ends_with(".openai.azure.com"));
    if by_host || url.path().contains("/openai/deployments/") { "azure.ai.openai" } else { PROVIDER }
}

/// The request as it goes out: without the headers that are ours, in the current trace, and with that body, if one is given.
///
/// It was built once to be looked at, and that one is the first attempt's: building may mean to read a file. Any further
/// attempt builds anew, as the client means it.
pub(super) fn sent(factory: HttpRequestFactory, first: Request, body: Option<Bytes>) -> HttpRequestFactory {
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
                // The transport knows the length; a header that states it already must not be wrong.
                if request.headers().contains_key(CONTENT_LENGTH) {
                    request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                }
                *request.body_mut() = Some(body.into());
            }
            Ok(request)
        }
    })
}

/// A chat call of a client that waits for its history.
pub struct HttpDraft {
    pub(super) factory: HttpRequestFactory,
    pub(super) first: Request,
    pub(super) body: ChatBody,
}

impl Draft for HttpDraft {
    type Request = HttpRequestFactory;

    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<HttpRequestFactory>, BoxError> {
        // Nothing is ever downgraded here: messages are sent as the JSON that they are.
        let body = self.body.with_window(prompt.window, prompt.reply_limit);
        Ok(Completed::new(sent(self.factory, self.first, Some(body)), 0))
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
    fn azure_is_known_by_its_addresses() {
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

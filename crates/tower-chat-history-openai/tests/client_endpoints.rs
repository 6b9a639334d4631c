//! Calls of conversational endpoints that have no history.

#![allow(clippy::unwrap_used)] // A test may.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request, Response};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::MemoryStore;
use tower_chat_history_openai::client::{OpenAiHistory, STATELESS};
use tower_layer::Layer as _;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Collects warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

async fn call(method: Method, path: &str, stateless: bool) {
    let url = format!("http://llm.test/v1{path}");
    let factory = HttpRequestFactory::new(move || {
        let mut request = Request::new(method.clone(), url.parse().unwrap());
        if stateless {
            request.headers_mut().insert(STATELESS, "true".parse().unwrap());
        }
        async move { Ok(request) }
    });
    let transport = service_fn(|factory: HttpRequestFactory| async move {
        factory.build().await?;
        Ok::<_, OpenAIError>(Response::from(http::Response::new("{}")))
    });
    let service = OpenAiHistory::new(MemoryStore::new()).layer().layer(transport);
    service.oneshot(factory).await.unwrap();
}

#[tokio::test]
async fn calls_without_history_log_one_warning_for_each_endpoint() {
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    for (path, stateless) in [("/models", false), ("/embeddings", false), ("/threads", true)] {
        call(Method::POST, path, stateless).await;
    }
    call(Method::GET, "/threads", false).await;
    assert!(warnings.0.lock().unwrap().is_empty(), "{warnings:?}", warnings = warnings.0);
    for path in ["/threads/thread_secret/runs", "/threads"] {
        call(Method::POST, path, false).await;
    }
    let logged = warnings.0.lock().unwrap().clone();
    assert_eq!(logged.len(), 1, "{logged:#?}");
    assert!(logged[0].contains("threads") && !logged[0].contains("secret"));
}

//! Spans of a call have its provider, its request's options and its error's name, and never text of the provider.

#![allow(clippy::unwrap_used)] // A test may.

#[path = "support/traced.rs"]
mod traced;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use async_openai::{
    Client,
    error::OpenAIError,
    middleware::HttpRequestFactory,
    traits::RequestOptionsBuilder as _,
    types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use futures_util::StreamExt as _;
use opentelemetry::trace::Status;
use reqwest::{Body, Response};
use tokio::sync::Notify;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn, timeout::TimeoutLayer};
use tower_chat_history::{ChatHistoryLayer, InConversation, MemoryStore};
use tower_chat_history_openai::{
    ChatService, ChatStreamService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory, openai_error},
};
use tower_chat_history_test::{ApiFailure, MockServer, Reply};
use traced::{Traced, attribute, config, id, request};

const SECRET: &str = "the aunt's diagnosis";

/// One test: a process has one subscriber.
#[tokio::test]
async fn spans_have_the_provider_and_the_name_of_the_error() {
    let traced = Traced::new(false);
    let refused = || Reply::error(ApiFailure::new(400, SECRET).kind(SECRET).code(SECRET).param(SECRET));
    let server = MockServer::start([refused(), refused(), refused(), Reply::text("a")]).await.unwrap();
    let client = || Client::with_config(config(&server));

    typed(ChatService::new(client())).await.unwrap_err();
    assert_eq!(failed(&traced, 1), "400");
    let streams = ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new());
    let streams = ServiceBuilder::new().layer(streams).service(ChatStreamService::new(client()));
    assert!(streams.oneshot(InConversation::new(id(), request())).await.is_err());
    assert_eq!(failed(&traced, 2), "400");

    // Here the layer sees a response and not an error.
    let client_with_history = OpenAiHistory::new(MemoryStore::new()).provider("groq").client(config(&server));
    let ask = || client_with_history.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
    let error = ask().create(request()).await.unwrap_err();
    assert!(matches!(error, OpenAIError::ApiError(_)));
    assert_eq!(failed(&traced, 3), "400");

    let cut = broken_body().await;
    assert_eq!(failed(&traced, 4), "body");
    assert!(traced.finished("chat m")[3].end_time >= cut, "a call lasts until its body has arrived or failed");

    let never = service_fn(|_: CreateChatCompletionRequest| {
        std::future::pending::<Result<CreateChatCompletionResponse, OpenAIError>>()
    });
    tokio::time::pause();
    let limited = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(1))).service(never);
    typed(limited).await.unwrap_err();
    tokio::time::resume();
    assert_eq!(failed(&traced, 5), "timeout");

    ask().create(CreateChatCompletionRequest { temperature: Some(0.7), ..request() }).await.unwrap();
    let calls = traced.finished("chat m");
    assert_eq!((calls.len(), &calls[5].status), (6, &Status::Unset));
    let providers: Vec<_> = calls.iter().map(|call| attribute(call, "gen_ai.provider.name").unwrap()).collect();
    assert_eq!(providers, ["openai", "openai", "groq", "openai", "openai", "groq"]);
    assert_eq!(attribute(&calls[5], "gen_ai.request.temperature").as_deref(), Some("0.7"));
    assert_eq!(attribute(&calls[0], "gen_ai.request.temperature"), None);
}

/// Makes a call through the typed integration with this service.
async fn typed<S>(service: S) -> Result<CreateChatCompletionResponse, BoxError>
where
    S: Service<CreateChatCompletionRequest, Response = CreateChatCompletionResponse, Error: Into<BoxError>>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let layer = ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new());
    ServiceBuilder::new().layer(layer).service(service).oneshot(InConversation::new(id(), request())).await
}

/// Makes a call whose response has a success status and a body that breaks off. Returns the time at which it breaks
/// off.
async fn broken_body() -> SystemTime {
    let (cut, broken) = (Arc::new(OnceLock::new()), Arc::new(Notify::new()));
    let (at, signal) = (Arc::clone(&cut), Arc::clone(&broken));
    let transport = service_fn(move |_: HttpRequestFactory| {
        let (at, signal) = (Arc::clone(&at), Arc::clone(&signal));
        async move {
            let begin = futures_util::stream::iter([Ok("{")]);
            let end = futures_util::stream::once(async move {
                // The headers arrived long before.
                signal.notified().await;
                at.set(SystemTime::now()).unwrap();
                Err(SECRET)
            });
            let body = begin.chain(end);
            let response = http::Response::builder().header("content-type", "application/json");
            Ok::<_, OpenAIError>(Response::from(response.body(Body::wrap_stream(body)).unwrap()))
        }
    });
    let layer = OpenAiHistory::new(MemoryStore::new()).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(layer).service(transport);
    let client = Client::with_config(async_openai::config::OpenAIConfig::new()).with_http_service(service);
    let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
    let late = async {
        tokio::task::yield_now().await;
        broken.notify_one();
    };
    let (answer, ()) = futures_util::join!(chat.create(request()), late);
    assert!(matches!(answer, Err(OpenAIError::Reqwest(_))));
    *cut.get().unwrap()
}

/// Checks that `count` calls have ended and that the last of them failed. Returns the name of its error.
fn failed(traced: &Traced, count: usize) -> String {
    let (turns, calls) = (traced.finished("chat_history"), traced.finished("chat m"));
    assert_eq!((turns.len(), calls.len()), (count, count));
    let (turn, call) = (&turns[count - 1], &calls[count - 1]);
    assert_eq!(attribute(call, "chat_history.call.outcome").as_deref(), Some("failed"));
    assert_eq!(attribute(turn, "chat_history.outcome").as_deref(), Some("call_failed"));
    for span in [turn, call] {
        assert!(matches!(span.status, Status::Error { .. }), "{:?}", span.status);
        assert!(!format!("{span:?}").contains(SECRET));
    }
    let error = attribute(call, "error.type").unwrap();
    assert_eq!(attribute(turn, "error.type").as_ref(), Some(&error));
    error
}

//! Hostile requests: bodies and headers through the HTTP client of async-openai, and JSON values.

use std::sync::{Arc, Mutex};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request, header::HeaderValue};
use serde_json::{Value, json, value::RawValue};
use tokio::runtime::Builder;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, InConversation, MemoryStore, adapt::Json,
};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory, openai_error};

use super::{
    super::{Checked, Figures, outcome::holds},
    texts::Texts,
};

const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#;

/// Sends some requests.
pub(super) fn check(texts: &mut Texts, figures: &mut Figures) -> Checked {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..6 {
            let message = texts.message();
            let rest = texts.json();
            let mut body =
                format!(r#"{{"x":{rest},"messages":[{message},{{"role":"user","content":"u"}}],"model":"m"}}"#);
            if texts.rng.once_in(4) {
                body = texts.changed(&body);
            }
            let id = if texts.rng.once_in(3) { texts.odd() } else { "c".to_owned() };
            body_and_header(&body, &id, figures).await?;
            if let Ok(value) = serde_json::from_str(&body) {
                values(value, figures).await?;
            }
        }
        Ok(())
    })
}

/// Checks that a body is extended to valid JSON, or refused before it is sent.
async fn body_and_header(body: &str, id: &str, figures: &mut Figures) -> Checked {
    let Ok(id) = HeaderValue::from_str(id) else { return Ok(()) };
    let sent: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    let seen = Arc::clone(&sent);
    let transport = service_fn(move |factory: HttpRequestFactory| {
        let seen = Arc::clone(&seen);
        async move {
            let request = factory.build().await?;
            *seen.lock().unwrap() = request.body().and_then(|body| body.as_bytes()).map(<[u8]>::to_vec);
            let response = http::Response::builder().header("content-type", "application/json").body(ANSWER);
            Ok::<_, OpenAIError>(reqwest::Response::from(response.unwrap()))
        }
    });
    let mut post = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
    post.headers_mut().insert(CONVERSATION_ID, id);
    *post.body_mut() = Some(body.to_owned().into());
    let factory = HttpRequestFactory::new(move || {
        let request = post.try_clone();
        async move { request.ok_or_else(|| OpenAIError::InvalidArgument("a request in one piece".into())) }
    });
    let history = OpenAiHistory::from_engine(Engine::new(MemoryStore::new())).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(history).service(transport);
    let answered = service.oneshot(factory).await.is_ok();
    figures.count(if answered { "bodies sent" } else { "bodies refused" });
    let sent = sent.lock().unwrap().take();
    if let Some(sent) = sent {
        let is_json = serde_json::from_slice::<&RawValue>(&sent).is_ok();
        holds(is_json, "the body of a request is JSON", || String::from_utf8_lossy(&sent).chars().take(300).collect())?;
    }
    Ok(())
}

/// Sends a value, which may be answered or refused.
async fn values(value: Value, figures: &mut Figures) -> Checked {
    let model = service_fn(|_: Value| std::future::ready(Ok::<_, BoxError>(json!(null))));
    let layer = ChatHistoryLayer::new(MemoryStore::new(), Json::new());
    let call = InConversation::new(ConversationId::new(["c"]).unwrap(), value);
    let result = ServiceBuilder::new().layer(layer).service(model).oneshot(call).await;
    figures.count(if result.is_ok() { "values answered" } else { "values refused" });
    Ok(())
}

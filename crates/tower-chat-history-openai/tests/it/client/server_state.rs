//! Calls whose conversation the provider keeps.

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{BoxError, MemoryStore};
use tower_chat_history_openai::client::{CONVERSATION_ID, CallError, OnServerState, OpenAiHistory, openai_error};

use super::{
    log,
    raw::{answer, body, exchange_by, factory, post},
};

const ASK: &str = r#"{"input":"u0","previous_response_id":"resp_1"}"#;
const WHOLE: &str = r#"{"status":"completed","output":[{"type":"message","role":"assistant","content":"a0"}]}"#;

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_is_refused_by_default() {
    let transport =
        service_fn(|_: HttpRequestFactory| async { Err::<reqwest::Response, BoxError>("the model is called".into()) });
    let layer = OpenAiHistory::new(MemoryStore::new()).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(layer).service(transport);
    let error = service.oneshot(factory(post("/v1/responses", ASK))).await.unwrap_err();
    let OpenAIError::Boxed(error) = error else { panic!("{error:?}") };
    assert!(matches!(error.downcast_ref(), Some(CallError::ServerState { field: "previous_response_id" })));
}

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_may_pass_through() {
    let store = MemoryStore::new();
    let history = OpenAiHistory::new(store.clone()).on_server_state(OnServerState::PassThrough);
    let json = || answer(Some("application/json"), WHOLE);
    let (sent, response) = exchange_by(&history, post("/v1/responses", ASK), json()).await;
    assert_eq!((body(&sent), sent.headers().get(CONVERSATION_ID)), (ASK, None));
    assert_eq!(response.text().await.unwrap(), WHOLE);
    assert!(log(&store).await.is_empty());
    exchange_by(&history, post("/v1/responses", r#"{"input":"u0","conversation":null}"#), json()).await;
    assert_eq!(log(&store).await, ["user: u0", "assistant: a0"]);
}

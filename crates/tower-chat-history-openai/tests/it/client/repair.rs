//! Calls of the Responses API that are repeated: each call builds its request from the client's factory.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request, Response};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{MemoryStore, engine::InputMode};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
use tower_chat_history_test::responses::{ResponsesProvider, Say};
use tower_layer::Layer as _;

use super::id;

#[tokio::test]
async fn a_repeated_call_is_built_from_the_factory() {
    let provider = Arc::new(Mutex::new(ResponsesProvider::new("acme")));
    let requests = Arc::new(Mutex::new(Vec::<Request>::new()));
    let transport = service_fn({
        let (provider, requests) = (Arc::clone(&provider), Arc::clone(&requests));
        move |factory: HttpRequestFactory| {
            let (provider, requests) = (Arc::clone(&provider), Arc::clone(&requests));
            async move {
                let request = factory.build().await?;
                let body = String::from_utf8(request.body().unwrap().as_bytes().unwrap().to_vec()).unwrap();
                requests.lock().unwrap().push(request);
                let script = [Say::reasoning(), Say::text("so")];
                let (status, body) = match provider.lock().unwrap().reply(&body, &script) {
                    Ok(made) => (200, made.body()),
                    Err(refusal) => (refusal.status(), refusal.to_json().to_string()),
                };
                let response = http::Response::builder().status(status).header("content-type", "application/json");
                Ok::<_, OpenAIError>(Response::from(response.body(body).unwrap()))
            }
        }
    });
    let layer = OpenAiHistory::new(MemoryStore::new()).input_mode(InputMode::New).layer();
    let built = Arc::new(AtomicUsize::new(0));
    for (turn, built_for_turn) in [1, 2, 1].into_iter().enumerate() {
        if turn == 1 {
            provider.lock().unwrap().rotate_key();
        }
        let before = built.load(Ordering::Relaxed);
        let counted = Arc::clone(&built);
        let factory = HttpRequestFactory::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut request = Request::new(Method::POST, "http://llm.test/v1/responses".parse().unwrap());
            request.headers_mut().insert(CONVERSATION_ID, id().to_string().parse().unwrap());
            request.headers_mut().insert("x-other", "kept".parse().unwrap());
            *request.body_mut() = Some(r#"{"model":"gpt-5.5","store":false,"input":"and?"}"#.into());
            async move { Ok(request) }
        });
        let response = layer.layer(transport.clone()).oneshot(factory).await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        assert_eq!(built.load(Ordering::Relaxed) - before, built_for_turn);
    }
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 4);
    for request in requests.iter() {
        assert!(request.headers().get(CONVERSATION_ID).is_none() && request.headers()["x-other"] == "kept");
    }
    let has_encrypted = |at: usize| {
        let body: &[u8] = requests[at].body().unwrap().as_bytes().unwrap();
        std::str::from_utf8(body).unwrap().contains("encrypted_content")
    };
    assert_eq!([0, 1, 2, 3].map(has_encrypted), [false, true, false, true]);
}

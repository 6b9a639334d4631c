//! Bodies of other crates, and a proxy in front of a server.

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::http::{ChatWire, HistoryBody, error_response};

use super::support::{ASK, EVENTS, History, JSON, PATH, WHOLE, events, text, with_body};

/// Returns a server that answers chat calls whole, or with events if the body says so.
fn server() -> Router {
    let answer = |body: Bytes| async move {
        let is_streamed = std::str::from_utf8(&body).unwrap().contains(r#""stream":true"#);
        let (kind, text) = if is_streamed { (EVENTS, events(&["a0"])) } else { (JSON, WHOLE.to_owned()) };
        ([("content-type", kind)], text)
    };
    Router::new().route(PATH, post(answer)).route("/v1/embeddings", post(async || "vectors"))
}

/// Returns a proxy with memory in front of the server.
fn proxy(history: &History) -> Router {
    let server = server();
    let client = service_fn(move |request: Request<HistoryBody>| server.clone().oneshot(request.map(Body::new)));
    let chat = history.layer().layer(client);
    Router::new().fallback(move |request: Request<Body>| {
        let chat = chat.clone();
        async move {
            match chat.oneshot(request).await {
                Ok(response) => response.map(Body::new),
                Err(error) => error_response(&*error, &ChatWire::new()).map(Body::from),
            }
        }
    })
}

async fn send(proxy: &Router, request: Request<Body>) -> Response<Body> {
    proxy.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_proxy_of_axum_has_memory() {
    let history = History::new();
    let proxy = proxy(&history);
    let streamed = r#"{"stream":true,"messages":[{"role":"user","content":"u1"}]}"#;
    assert_eq!(text(send(&proxy, with_body(Body::from(ASK))).await).await, WHOLE);
    assert_eq!(text(send(&proxy, with_body(Body::from(streamed))).await).await, events(&["a0"]));
    assert_eq!(history.log().await.len(), 4);
    let other = Request::post("/v1/embeddings").body(Body::from("x")).unwrap();
    assert_eq!(text(send(&proxy, other).await).await, "vectors");
}

#[tokio::test]
async fn a_proxy_answers_errors_in_the_form_of_the_provider() {
    let history = History::new();
    let response = send(&proxy(&history), with_body(Body::from("{"))).await;
    assert_eq!((response.status().as_u16(), response.headers()["content-type"].as_bytes()), (400, JSON.as_bytes()));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["error"]["type"], &body["error"]["code"]), (&"invalid_request_error".into(), &"body".into()));
}

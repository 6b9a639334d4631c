//! The bytes of `MockServer`, read without a client library.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower_chat_history_test::{ApiFailure, Call, MockServer, Reply};

/// Sends one request and reads until the connection closes. Returns the head, and the body as received.
pub(crate) async fn exchange(server: &MockServer, head: &str, body: &str) -> (String, String) {
    exchange_with(server, head, "", body).await
}

/// Does the same with these lines of headers, each of which ends with CRLF.
pub(crate) async fn exchange_with(server: &MockServer, head: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.into())
}

const CHAT: &str = "POST /v1/chat/completions";

fn body(stream: bool, content: &Value) -> String {
    json!({ "model": "m", "stream": stream, "messages": [{ "role": "user", "content": content }] }).to_string()
}

#[tokio::test]
async fn events_are_framed_and_end_with_done() {
    let server = MockServer::start([Reply::text("ab").chunk_chars(1)]).await.unwrap();
    let (head, chunked) = exchange(&server, CHAT, &body(true, &json!("Hi!"))).await;
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
    let events: Vec<_> = chunked.lines().filter(|line| line.starts_with("data: ")).collect();
    assert_eq!((events.len(), events[4]), (5, "data: [DONE]"));
    assert_eq!(chunked.matches("\n\n\r\n").count(), 5, "each event is one chunk of the transfer");
    let first: Value = serde_json::from_str(&events[0][6..]).unwrap();
    assert_eq!(first["object"], "chat.completion.chunk");
    assert_eq!(first["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert_eq!(first.get("usage"), None, "only if the request asks for it");
}

#[tokio::test]
async fn an_aborted_stream_has_no_end_of_transfer() {
    let server = MockServer::start([Reply::text("ab").abort_after(1), Reply::text("ab").end_after(1)]).await.unwrap();
    let (_, aborted) = exchange(&server, CHAT, &body(true, &json!("Hi!"))).await;
    let (_, ended) = exchange(&server, CHAT, &body(true, &json!("Hi!"))).await;
    assert!(aborted.contains("data: ") && !aborted.ends_with("0\r\n\r\n"), "{aborted}");
    assert!(ended.ends_with("0\r\n\r\n") && !ended.contains("[DONE]"), "{ended}");
}

#[tokio::test]
async fn bodies_are_recorded_verbatim() {
    let server = MockServer::start([Reply::text("ok")]).await.unwrap();
    let message = r#"{ "role":"user", "content":"\ud83d\uDE00", "x":1.0 }"#;
    let body = format!(r#"{{"model":"m", "unknown":{{}}, "messages":[{message}]}}"#);
    let (head, answer) = exchange(&server, CHAT, &body).await;
    assert!(head.starts_with("http/1.1 200"), "{head} {answer}");
    let requests = server.requests();
    assert_eq!((requests[0].body(), requests[0].messages()[0].json()), (body.as_str(), message));
    assert!(requests[0].headers().any(|header| header == ("host", "mock")));
}

#[tokio::test]
async fn provider_fields_and_custom_calls_are_sent() {
    let reply = || {
        Reply::calls([Call::custom("call_1", "sql", "select 1")]).field("reasoning_content", "hm").finish("end_turn")
    };
    let server = MockServer::start([reply(), reply()]).await.unwrap();
    let (_, whole) = exchange(&server, CHAT, &body(false, &json!("Hi!"))).await;
    let choice = serde_json::from_str::<Value>(&whole).unwrap()["choices"][0].take();
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(choice["message"]["tool_calls"][0]["custom"], json!({ "name": "sql", "input": "select 1" }));
    assert_eq!(choice["finish_reason"], "end_turn");
    let (_, streamed) = exchange(&server, CHAT, &body(true, &json!("Hi!"))).await;
    assert!(streamed.contains(r#""reasoning_content":"hm""#) && streamed.contains("end_turn"), "{streamed}");
}

#[tokio::test]
async fn errors_have_openais_shape() {
    let server = MockServer::start([Reply::error(ApiFailure::rate_limited(std::time::Duration::ZERO))]).await.unwrap();
    let message = json!({ "role": "user", "content": "Hi!" });
    for (head, body, status) in [
        (CHAT, body(false, &json!("Hi!")), "429"),
        (CHAT, "{".into(), "400"),
        (CHAT, r#"{"model":"m","messages":[1]}"#.into(), "400"),
        (CHAT, json!({ "messages": [message] }).to_string(), "400"),
        (CHAT, json!({ "model": "m", "messages": [] }).to_string(), "400"),
        (CHAT, json!({ "model": "m", "messages": [message], "n": 129 }).to_string(), "400"),
        ("GET /v1/chat/completions", String::new(), "405"),
        ("POST /v1/embeddings", String::new(), "400"),
        ("POST /v1/completions", String::new(), "404"),
    ] {
        let (head, answer) = exchange(&server, head, &body).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        assert_eq!(head.contains("retry-after: 0"), status == "429", "{head}");
        let error = serde_json::from_str::<Value>(&answer).unwrap()["error"].take();
        assert!(error["message"].is_string() && error["type"].is_string() && error.get("code").is_some(), "{answer}");
    }
    let (_, models) = exchange(&server, "GET /v1/models", "").await;
    assert_eq!(serde_json::from_str::<Value>(&models).unwrap()["data"][0]["id"], "mock");
    assert_eq!(
        (server.requests().len(), server.embeddings().requests().len()),
        (6, 1),
        "other requests are not recorded"
    );
}

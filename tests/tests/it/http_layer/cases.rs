//! The cases of `tests/it/cases/http.rs` that are about HTTP, without async-openai.

use std::time::Duration;

use http::Request;
use reqwest::{Body, Error};
use serde_json::json;
use tests::{Storage, exchanges, log, over_every_store, short};
use tower::{
    ServiceBuilder,
    retry::{Policy, RetryLayer},
};
use tower_chat_history::{
    Message, TurnReport,
    report::{NotStored, Outcome},
};
use tower_chat_history_http::HistoryBody;
use tower_chat_history_test::{ApiFailure, Choice, Reply};

use super::{Http, HttpClient};

over_every_store! {
    #[tokio::test]
    a_message_of_1_mb,
    a_repeated_attempt_is_stored_once,
    an_error_event_within_the_stream,
    a_stream_that_is_cut_or_aborted,
    an_unknown_finish_reason,
    several_choices,
    a_refusal_and_a_filtered_reply,
    no_choices_and_an_empty_reply,
    parallel_calls_are_streamed_and_continued,
}

fn is_interrupted(report: &TurnReport) -> bool {
    matches!(report.outcome, Outcome::NotStored(NotStored::Interrupted))
}

async fn a_message_of_1_mb(storage: Storage) {
    let large = "ä\u{1f41f}\"\\\u{0}".repeat(1_000_000 / 9);
    let reply = || Reply::text(large.clone()).chunk_chars(100_000);
    let (chat, id) = (Http::new(&storage, [reply(), reply().wire_bytes(65_537)]).await, storage.conversation());
    assert!(chat.unary(&id, &large).await["choices"][0]["message"]["content"] == large);
    let answer = chat.stream(&id, "u").await;
    assert!(answer.text() == large && matches!(answer.report.outcome, Outcome::Stored { .. }));
    let received: Vec<String> = chat.server.prompts()[1].iter().map(short).collect();
    assert!(received == [format!("user: {large}"), format!("assistant: {large}"), "user: u".into()]);
    assert_eq!(log(&storage.store, &id).await.len(), 4);
}

/// Repeats a call whose answer is that the server is busy.
#[derive(Clone)]
struct WhileBusy;

impl Policy<Request<HistoryBody>, http::Response<Body>, Error> for WhileBusy {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<HistoryBody>,
        result: &mut Result<http::Response<Body>, Error>,
    ) -> Option<Self::Future> {
        let is_busy = result.as_ref().is_ok_and(|response| response.status() == http::StatusCode::TOO_MANY_REQUESTS);
        is_busy.then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Request<HistoryBody>) -> Option<Request<HistoryBody>> {
        let mut clone = Request::new(request.body().try_clone()?);
        (*clone.method_mut(), *clone.uri_mut()) = (request.method().clone(), request.uri().clone());
        *clone.headers_mut() = request.headers().clone();
        Some(clone)
    }
}

async fn a_repeated_attempt_is_stored_once(storage: Storage) {
    let busy = || Reply::error(ApiFailure::rate_limited(Duration::ZERO));
    let replies = [busy(), Reply::text("a0"), busy(), busy(), Reply::text("a1")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    let client = ServiceBuilder::new().layer(RetryLayer::new(WhileBusy)).service(HttpClient::new());
    chat.call(client.clone(), &id, &[Message::user("u0")], json!({})).await;
    let answer = chat.call(client, &id, &[Message::user("u1")], json!({"stream": true})).await;
    assert_eq!(answer.text(), "a1");
    let requests = chat.server.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0].body(), requests[1].body(), "each attempt is the same request");
    assert_eq!(requests[2].body(), requests[4].body());
    assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
}

async fn an_error_event_within_the_stream(storage: Storage) {
    let failure = || ApiFailure::new(503, "overloaded");
    let reply = || Reply::text("abc").chunk_chars(1);
    let replies = [reply().error_after(3, failure()), reply().passing_error_after(3, failure())];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    for expected in ["ab", "abc"] {
        let answer = chat.stream(&id, "u").await;
        assert_eq!(answer.text(), expected);
        assert!(answer.chunks()[3]["error"].is_object() && answer.error.is_none());
        assert!(is_interrupted(&answer.report));
    }
    assert!(log(&storage.store, &id).await.is_empty());
}

async fn a_stream_that_is_cut_or_aborted(storage: Storage) {
    let reply = || Reply::text("abc").chunk_chars(1);
    let replies = [reply().end_after(3), reply().abort_after(3), Reply::text("a")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    let cut = chat.stream(&id, "u").await;
    assert!(cut.text() == "ab" && cut.error.is_none(), "a clean cut looks like an end");
    assert!(is_interrupted(&cut.report));
    let aborted = chat.stream(&id, "u").await;
    assert!(aborted.text() == "ab" && aborted.error.is_some());
    assert!(is_interrupted(&aborted.report));
    assert!(log(&storage.store, &id).await.is_empty());
    chat.unary(&id, "u").await;
    assert_eq!(chat.server.prompts()[2].len(), 1);
}

async fn an_unknown_finish_reason(storage: Storage) {
    let odd = || Reply::text("a").finish("end_turn");
    let (chat, id) = (Http::new(&storage, [odd(), odd()]).await, storage.conversation());
    chat.unary(&id, "u").await;
    chat.stream(&id, "u").await;
    let stored = exchanges(&storage.store, &id).await;
    let reasons: Vec<_> = stored.iter().map(|recorded| recorded.exchange.finish_reason.as_deref()).collect();
    assert_eq!(reasons, [Some("end_turn"); 2]);
}

async fn several_choices(storage: Storage) {
    let two = || Reply::choices([Choice::text("heads"), Choice::text("tails, and longer").finish("length")]);
    let (chat, id) = (Http::new(&storage, [two(), two()]).await, storage.conversation());
    for is_streamed in [false, true] {
        let fields = json!({"n": 2, "stream": is_streamed});
        chat.call(HttpClient::new(), &id, &[Message::user("u")], fields).await;
    }
    let turn = ["user: u", "assistant: heads"];
    assert_eq!(log(&storage.store, &id).await, [turn, turn].concat());
}

async fn a_refusal_and_a_filtered_reply(storage: Storage) {
    let refusal = || Reply::refusal("I can't.");
    let filtered = || Reply::text("a").finish("content_filter");
    let (chat, id) =
        (Http::new(&storage, [refusal(), refusal(), filtered(), filtered()]).await, storage.conversation());
    for is_streamed in [false, true, false, true] {
        chat.call(HttpClient::new(), &id, &[Message::user("u")], json!({"stream": is_streamed})).await;
    }
    let stored = exchanges(&storage.store, &id).await;
    let refused = r#""refusal":"I can't.""#;
    assert!(stored[..2].iter().all(|recorded| recorded.exchange.messages[1].json().contains(refused)));
    for recorded in &stored[2..] {
        assert_eq!(recorded.exchange.finish_reason.as_deref(), Some("content_filter"));
    }
    assert!(chat.server.requests()[3].body().contains(refused), "a refusal is sent as a refusal");
}

async fn no_choices_and_an_empty_reply(storage: Storage) {
    let replies = [Reply::no_choices(), Reply::no_choices(), Reply::empty(), Reply::empty(), Reply::text("a")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    assert_eq!(chat.unary(&id, "u").await["choices"], json!([]));
    assert!(is_interrupted(&chat.stream(&id, "u").await.report));
    assert!(log(&storage.store, &id).await.is_empty());
    chat.unary(&id, "u0").await;
    chat.stream(&id, "u1").await;
    chat.unary(&id, "u2").await;
    let received: Vec<String> = chat.server.prompts()[4].iter().map(short).collect();
    assert_eq!(received, ["user: u0", "user: u1", "user: u2"]);
    let replies = ["user: u0", "assistant: ", "user: u1", "assistant: ", "user: u2", "assistant: a"];
    assert_eq!(log(&storage.store, &id).await, replies);
}

async fn parallel_calls_are_streamed_and_continued(storage: Storage) {
    let calls = Reply::calls([("x", "weather", r#"{"city":"Oslo"}"#), ("y", "time", "not JSON at all")]).chunk_chars(3);
    let (chat, id) = (Http::new(&storage, [calls.wire_bytes(7), Reply::text("a")]).await, storage.conversation());
    chat.stream(&id, "u").await;
    let results = [Message::tool("y", "ry"), Message::tool("x", "rx")];
    let answer = chat.call(HttpClient::new(), &id, &results, json!({"stream": true})).await;
    assert!(matches!(answer.report.outcome, Outcome::Stored { moved: false, .. }));
    let received: Vec<String> = chat.server.prompts()[1].iter().map(short).collect();
    assert_eq!(received, ["user: u", "assistant calls x,y: ", "tool y: ry", "tool x: rx"]);
}

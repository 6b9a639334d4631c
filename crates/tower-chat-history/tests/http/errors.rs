//! Errors as responses.

use std::{error::Error, fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use http_body::Frame;
use http_body_util::{Full, Limited, StreamBody};
use serde_json::Value;
use tower_chat_history::{
    BoxError, ContextBudget, Exchange, ExchangeId, HistoryError, HistoryOptions, Message, MissingConversation,
    Policies, StoreError,
    error::{HeaderError, InputError},
    http::{CallError, ChatWire, Gap, HttpHistory, Refusal, Splice, error_response},
    limits::Limits,
    policy::OnOpenTurn,
    store::{Recorded, Seq},
};

use super::support::{ASK, History, JSON, WHOLE, answer, ask, with_body};

const SECRET: &str = "the aunt's diagnosis";

/// An error of a layer around this one.
#[derive(Debug)]
struct Wrapper(BoxError);

impl fmt::Display for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SECRET)
    }
}

impl Error for Wrapper {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

fn recorded() -> Recorded {
    let exchange = Exchange::new(ExchangeId::new("m-1").unwrap(), [Message::user(SECRET), Message::assistant(SECRET)]);
    Recorded::new(Seq::FIRST, exchange)
}

/// Returns the error for a gap that the body does not have.
fn outside() -> CallError {
    let gap = Gap { range: 0..9, before: "", after: "", empty: None };
    Splice::new(Bytes::from("{}"), gap).unwrap_err()
}

fn cases() -> Vec<(u16, &'static str, BoxError)> {
    let unavailable = || StoreError::unavailable(std::io::Error::other(SECRET));
    let name = HeaderName::from_static("x-chat-history-exchange");
    let message = Message::from_json("7").unwrap_err();
    vec![
        (400, "missing_conversation", MissingConversation.into()),
        (400, "header", HeaderError::Repeated { name }.into()),
        (400, "body", CallError::Body { line: 1, column: 2 }.into()),
        (400, "body", CallError::Message { position: 3, source: message }.into()),
        (400, "input", HistoryError::Input(InputError::Prefill { position: 3 }).into()),
        (400, "body", CallError::StreamedBody.into()),
        (413, "body_too_large", CallError::TooLarge { limit: 7 }.into()),
        (400, "body", CallError::Read(SECRET.into()).into()),
        (500, "wire", outside().into()),
        (415, "content_encoding", CallError::Encoded { coding: "gzip" }.into()),
        (400, "input", HistoryError::Input(InputError::Empty).into()),
        (409, "already_recorded", HistoryError::AlreadyRecorded(recorded()).into()),
        (503, "unavailable", HistoryError::Load(unavailable()).into()),
        (504, "timeout", HistoryError::LoadTimeout(Duration::from_secs(5)).into()),
        (429, "queue_full", HistoryError::QueueFull { max_waiting: 8 }.into()),
        (503, "queue_timeout", HistoryError::QueueTimeout(Duration::from_secs(5)).into()),
        (502, "upstream", SECRET.into()),
    ]
}

/// Returns the status and the code of the error of the second of two calls.
async fn second(options: HistoryOptions, first: &str, bodies: [&str; 2]) -> (u16, &'static str) {
    let history = History::of(HttpHistory::new(), options);
    history.ok(bodies[0], answer(JSON, first.to_owned())).await;
    let (sent, response) = history.call(ask(bodies[1].to_owned()), answer(JSON, WHOLE)).await;
    assert!(sent.is_none());
    let refusal = Refusal::of(&*response.unwrap_err());
    assert!(!refusal.text.contains("u0"));
    (refusal.status.as_u16(), refusal.code)
}

#[tokio::test]
async fn errors_of_a_conversation_have_their_status() {
    let again = r#"{"messages":[{"role":"user","content":"u1"}]}"#;
    let edited = r#"{"messages":[{"role":"user","content":"edited"},{"role":"assistant","content":"a0"},{"role":"user","content":"u1"}]}"#;
    let options = HistoryOptions::new;
    assert_eq!(second(options(), WHOLE, [ASK, edited]).await, (409, "transcript"));

    let calls = r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    let reject = options().policies(Policies::new().on_open_turn(OnOpenTurn::Reject));
    assert_eq!(second(reject, calls, [ASK, again]).await, (409, "input"));

    let large = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "word ".repeat(10_000));
    let budget = options().context(ContextBudget::tokens(2_000));
    assert_eq!(second(budget, WHOLE, [ASK, &large]).await, (413, "does_not_fit"));
}

#[tokio::test]
async fn calls_over_a_limit_have_their_status() {
    let again = r#"{"messages":[{"role":"user","content":"u1"}]}"#;
    let large = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(1_000));
    let limited = |limits: Limits| HistoryOptions::new().limits(limits);
    let (small, one) = (Limits::new().max_message_bytes(500), Limits::new().max_exchanges(1));
    assert_eq!(second(limited(small), WHOLE, [ASK, &large]).await, (413, "max_message_bytes"));
    let small = Limits::new().max_input_bytes(500);
    assert_eq!(second(limited(small), WHOLE, [ASK, &large]).await, (413, "max_input_bytes"));
    assert_eq!(second(limited(one), WHOLE, [ASK, again]).await, (403, "max_exchanges"));
    let small = Limits::new().max_conversation_bytes(500);
    assert_eq!(second(limited(small), WHOLE, [ASK, &large]).await, (403, "max_conversation_bytes"));
    let slow = Limits::new().calls_per_minute(1);
    assert_eq!(second(limited(slow), WHOLE, [ASK, again]).await, (429, "calls_per_minute"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_rate_says_when_to_come_again() {
    let history = History::of(HttpHistory::new(), HistoryOptions::new().limits(Limits::new().calls_per_minute(7)));
    for _ in 0..7 {
        history.ok(ASK, answer(JSON, WHOLE)).await;
    }
    let (_, response) = history.call(ask(ASK.to_owned()), answer(JSON, WHOLE)).await;
    let response = error_response(&*response.unwrap_err(), &ChatWire::new());
    // A seventh of a minute is 8.57 seconds.
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &HeaderValue::from(9)));
}

/// Clients repeat 429 by themselves.
#[tokio::test]
async fn a_rate_of_0_is_forbidden_and_not_to_be_repeated() {
    let history = History::of(HttpHistory::new(), HistoryOptions::new().limits(Limits::new().calls_per_minute(0)));
    let (_, response) = history.call(ask(ASK.to_owned()), answer(JSON, WHOLE)).await;
    let response = error_response(&*response.unwrap_err(), &ChatWire::new());
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (403, None));
}

#[tokio::test]
async fn a_call_in_another_format_than_that_of_the_conversation_is_a_conflict() {
    let history = History::new();
    history.ok(ASK, answer(JSON, WHOLE)).await;
    let mut request = ask(r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"u1"}]}"#);
    *request.uri_mut() = Uri::from_static("/v1/messages");
    let (sent, response) = history.call(request, answer(JSON, WHOLE)).await;
    assert!(sent.is_none());
    let refusal = Refusal::of(&*response.unwrap_err());
    assert_eq!((refusal.status.as_u16(), refusal.code), (409, "other_dialect"));
    assert!(["chat_completions", "anthropic_messages"].iter().all(|name| refusal.text.contains(name)), "{refusal:?}");
}

#[test]
fn each_error_has_its_status_and_no_secret() {
    for (status, code, error) in cases() {
        let shown = error.to_string();
        let wrapped = Wrapper(error);
        for error in [&*wrapped.0, &wrapped as &(dyn Error + 'static)] {
            let response = error_response(error, &ChatWire::new());
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["content-type"], "application/json");
            let body: Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["error"]["code"], code, "{shown}");
            let text = body.to_string();
            assert!(!text.contains(SECRET), "{text}");
            let kind = match status {
                429 => "rate_limit_error",
                400..500 => "invalid_request_error",
                _ => "server_error",
            };
            assert_eq!((&body["error"]["type"], &body["error"]["param"]), (&kind.into(), &Value::Null));
        }
    }
}

#[tokio::test]
async fn a_request_body_that_breaks_off_is_the_fault_of_its_sender() {
    let history = History::new();
    let frames = [Ok(Frame::data(Bytes::from("{"))), Err(SECRET)];
    let error = history.refused(with_body(StreamBody::new(futures_util::stream::iter(frames)))).await;
    assert!(matches!(error.downcast_ref(), Some(CallError::Read(source)) if source.to_string() == SECRET));
    let refusal = Refusal::of(&*error);
    assert_eq!((refusal.status.as_u16(), refusal.code, &*refusal.text), (400, "body", "the call's body broke off"));
}

#[tokio::test]
async fn a_request_body_over_the_limit_of_the_server_is_too_large() {
    let history = History::new();
    let limited = || Limited::new(Full::new(Bytes::from(ASK)), 10);
    let errors = [
        history.refused(with_body(limited())).await,
        history.refused(with_body(axum::body::Body::new(limited()))).await,
    ];
    for error in errors {
        assert!(matches!(error.downcast_ref(), Some(CallError::Read(_))), "{error:?}");
        let refusal = Refusal::of(&*error);
        assert_eq!((refusal.status.as_u16(), refusal.code), (413, "body_too_large"));
    }
}

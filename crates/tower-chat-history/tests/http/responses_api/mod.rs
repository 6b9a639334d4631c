//! The Responses API over HTTP.

mod failing;
mod mutant;
mod provider;
mod streams;
mod talk;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tower_chat_history::{HistoryError, http::CONVERSATION_ID, report::TurnOutcome};

use super::support::{self, History, JSON, Sent, answer, id, text};

/// A stream with an event of each kind.
pub(crate) const STREAM: &str = include_str!("events.sse");

/// The same response, whole.
const WHOLE: &str = include_str!("response.json");

const USER: &str = r#"{"role":"user","content":"u0"}"#;

/// Returns the items of `WHOLE`.
fn items() -> Vec<String> {
    tower_chat_history_test::responses::MadeResponse::items(WHOLE).unwrap()
}

fn ask(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post("https://api.openai.com/v1/responses").header(CONVERSATION_ID, id().as_str());
    request.body(Full::new(body.into())).unwrap()
}

/// Makes a call that succeeds. Returns the request that was sent, and the text of the response.
async fn ok(history: &History, body: &str, kind: &str, response: &str) -> (Sent, String) {
    let (sent, response) = history.call(ask(body.to_owned()), answer(kind, response.to_owned())).await;
    (sent.unwrap(), text(response.unwrap()).await)
}

#[tokio::test]
async fn every_item_is_stored_and_sent_again() {
    let history = History::new();
    let body = r#"{ "input":"u\u0030" ,"store":true,"model":"m","instructions":"Be brief."}"#;
    let (sent, got) = ok(&history, body, JSON, WHOLE).await;
    assert_eq!((sent.body.as_str(), got.as_str()), (body, WHOLE));
    assert_eq!(sent.header("accept-encoding"), Some("identity"));
    let user = r#"{"role":"user","content":"u\u0030"}"#.to_owned();
    assert_eq!(history.log().await, [vec![user.clone()], items()].concat());
    assert!(matches!(history.outcome(), TurnOutcome::Stored { .. }));

    // The compaction stands for all items before it. The program answers its three calls.
    let answers = [("function_call", "r"), ("custom_tool_call", "r"), ("shell_call", "r")]
        .map(|(kind, output)| format!(r#"{{"type":"{kind}_output","call_id":"x","output":"{output}"}}"#));
    let body = format!(r#"{{"input":[{}],"model":"m"}}"#, answers.join(","));
    let (sent, _) = ok(&history, &body, JSON, WHOLE).await;
    let expected = [&items()[8..], &answers].concat().join(",");
    assert_eq!(sent.body, format!(r#"{{"input":[{expected}],"model":"m"}}"#));
}

#[tokio::test]
async fn items_of_unknown_types_are_stored_and_sent() {
    let history = History::new();
    let unknown = r#"{"type":"next_year","level":1.50,"level":[ ]}"#;
    let reply =
        r#"{"output":[{"type":"of_the_model","id":"x_1"},{"role":"assistant","type":"message","content":"a"}]}"#;
    let body = format!(r#"{{"input":[{USER},{unknown}]}}"#);
    assert_eq!(ok(&history, &body, JSON, reply).await.0.body, body);
    let (sent, _) = ok(&history, r#"{"input":"u1"}"#, JSON, reply).await;
    let items = &reply[r#"{"output":["#.len()..reply.len() - 2];
    let expected = format!(r#"{{"input":[{USER},{unknown},{items},{{"role":"user","content":"u1"}}]}}"#);
    assert_eq!(sent.body, expected);
}

#[tokio::test]
async fn a_caller_may_resend_its_list() {
    let history = History::new();
    let reply = r#"{"id":"msg_1","type":"message","role":"assistant","content":[]}"#;
    let response = format!(r#"{{"output":[{reply}]}}"#);
    ok(&history, &format!(r#"{{"input":[{USER}]}}"#), JSON, &response).await;
    let body = format!(r#"{{"input":[{USER},{reply},{USER}]}}"#);
    assert_eq!(ok(&history, &body, JSON, &response).await.0.body, body);
    assert_eq!(history.log().await, [USER, reply, USER, reply]);
    let edited = body.replace("u0", "edited");
    let error = history.call(ask(edited), answer(JSON, WHOLE)).await.1.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Transcript(_))), "{error:?}");
}

#[tokio::test]
async fn a_conversation_stays_in_its_dialect() {
    let history = History::new();
    ok(&history, r#"{"input":"u0"}"#, JSON, WHOLE).await;
    let (sent, response) = history.call(support::ask(support::ASK), answer(JSON, support::WHOLE)).await;
    assert!(sent.is_none());
    let error = response.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::OtherDialect(_))), "{error:?}");
}

//! Streams through the layer.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::json;
use tower_chat_history::{
    BoxError, HistoryOptions, MemoryStore, Policies,
    http::{CONVERSATION_ID, HttpHistory},
    policy::OnInterruption,
};
use tower_chat_history_test::{
    FaultStore, Op,
    messages::{MessagesProvider, Say},
};

use super::streamed::events;
use crate::support::{EVENTS, History, JSON, answer, answer_with, cuts, frames, id, text};

const ASK: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"u"}]}"#;

fn ask() -> Request<Full<Bytes>> {
    Request::post("/v1/messages").header(CONVERSATION_ID, id().as_str()).body(ASK.into()).unwrap()
}

/// Returns the body of a whole response with blocks of all kinds.
fn whole() -> String {
    let says = [
        Say::Compaction("so far".into()),
        Say::Thinking("Gr\u{fc}\u{df}e".into()),
        Say::Redacted,
        Say::Search("s".into()),
        Say::Text("\u{1f600} \"so\"\n".into()),
        Say::Thinking(String::new()),
        Say::call("x", "look", json!({})),
        Say::call("y", "look", json!({})),
    ];
    MessagesProvider::new("acme").reply(ASK, &says).unwrap().body()
}

#[tokio::test]
async fn a_stream_cut_at_every_byte_is_stored_like_the_whole_response() {
    let whole = whole();
    let history = History::new();
    history.call(ask(), answer(JSON, whole.clone())).await.1.unwrap();
    let expected = history.log().await.remove(1);
    let text = events(&whole);
    for pieces in cuts(text.as_bytes()) {
        let history = History::new();
        let body = frames(pieces.iter().map(|piece| Frame::data(Bytes::copy_from_slice(piece))).collect());
        let (_, response) = history.call(ask(), answer_with(EVENTS, body)).await;
        assert_eq!(self::text(response.unwrap()).await, text);
        assert_eq!(history.log().await[1], expected, "first cut at {}", pieces[0].len());
    }
}

#[tokio::test]
async fn message_stop_is_held_until_the_exchange_is_stored() {
    let store = MemoryStore::new();
    let held = FaultStore::new(store.clone());
    let history = History::over(store, held.clone(), HttpHistory::new(), HistoryOptions::new());
    let hold = held.hold(Op::Append);
    let text = events(&whole());
    let (front, back) = text.split_at(text.find("event: message_stop").unwrap());
    let body = frames([front, back].map(|piece| Frame::data(Bytes::copy_from_slice(piece.as_bytes()))).into());
    let (_, response) = history.call(ask(), answer_with(EVENTS, body)).await;
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), front.to_owned());
    let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap().into_data().unwrap() });
    hold.reached(1).await;
    assert!(!reading.is_finished());
    hold.release();
    assert_eq!(reading.await.unwrap(), back.to_owned());
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn an_interrupted_stream_keeps_whole_blocks_and_texts() {
    let text = events(&whole());
    let call = text.find(r#""id":"x""#).unwrap();
    let (begun, _) = text.split_at(call + text[call..].find("\n\n").unwrap() + 2);
    for end in ["", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"] {
        let begun = begun.to_owned() + end;
        let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText));
        let history = History::of(HttpHistory::new(), options);
        let items = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(begun.clone())))]);
        let broken = stream::iter(end.is_empty().then(|| Err("broken".into())));
        let (_, response) = history.call(ask(), answer_with(EVENTS, StreamBody::new(items.chain(broken)))).await;
        let mut body = response.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), begun);
        assert_eq!(body.frame().await.is_some_and(|frame| frame.is_err()), end.is_empty());
        assert!(body.frame().await.is_none());
        let stored: serde_json::Value = serde_json::from_str(&history.log().await[1]).unwrap();
        let kinds: Vec<&str> =
            stored["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
        let all = ["compaction", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "text"];
        assert_eq!(kinds, all, "neither the call nor the thinking before it");
    }
}

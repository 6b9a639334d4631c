//! Streams of a response's events.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tower_chat_history::{
    HistoryOptions, MemoryStore, Policies,
    http::HttpHistory,
    policy::OnInterruption,
    report::{NotStored, ResponseShape, TurnOutcome},
};
use tower_chat_history_test::{FaultStore, Op};

use super::{
    super::support::{EVENTS, History, answer_with, frames, text},
    STREAM, ask, items, ok,
};

const ASK: &str = r#"{"input":"u0","stream":true}"#;
const USER: &str = r#"{"role":"user","content":"u0"}"#;

/// Returns the stream without its last event.
fn begun() -> &'static str {
    &STREAM[..STREAM.find("event: response.completed").unwrap()]
}

fn keeping() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText))
}

#[tokio::test]
async fn a_stream_is_passed_on_and_stored_like_the_whole_response() {
    for size in [1, 7, 100, 100_000] {
        let history = History::new();
        let parts = STREAM.as_bytes().chunks(size).map(|part| Frame::data(Bytes::copy_from_slice(part)));
        let (_, response) = history.call(ask(ASK), answer_with(EVENTS, frames(parts.collect()))).await;
        assert_eq!(text(response.unwrap()).await, STREAM);
        assert_eq!(history.log().await, [vec![USER.to_owned()], items()].concat());
    }
}

#[tokio::test]
async fn the_last_event_is_held_until_the_exchange_is_stored() {
    let store = MemoryStore::new();
    let held = FaultStore::new(store.clone());
    let history = History::over(store, held.clone(), HttpHistory::new(), HistoryOptions::new());
    let hold = held.hold(Op::Append);
    let (front, back) = STREAM.split_at(STREAM.len() - 1);
    let parts = [front, back, ": bye\n\n"].map(|part| Frame::data(Bytes::from(part)));
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, frames(parts.into()))).await;
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), front);
    let reading = tokio::spawn(async move {
        let held = body.frame().await.unwrap().unwrap().into_data().unwrap();
        (held, body.frame().await.unwrap().unwrap().into_data().unwrap())
    });
    hold.reached(1).await;
    assert!(!reading.is_finished());
    assert!(history.log().await.is_empty());
    hold.release();
    assert_eq!(reading.await.unwrap(), (back.into(), ": bye\n\n".into()));
    assert_eq!(history.log().await.len(), 14);
}

#[tokio::test]
async fn an_interrupted_stream_is_stored_only_if_the_policy_keeps_it() {
    let failed = r#"data: {"type":"response.failed","response":{"status":"failed","output":[]}}"#;
    let error = "event: error\ndata: {\"type\":\"error\",\"message\":\"x\"}";
    let failed = (format!("{failed}\n\n"), NotStored::UnreadableReply(ResponseShape::Error));
    let others = [String::new(), format!("{error}\n\n"), "data: [DONE]\n\n".to_owned()];
    for (end, expected) in others.map(|end| (end, NotStored::Interrupted)).into_iter().chain([failed]) {
        let stream = format!("{}{end}", begun());
        let history = History::new();
        assert_eq!(ok(&history, ASK, EVENTS, &stream).await.1, stream);
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(why) if why == expected), "{:?}", history.outcome());
        assert!(history.log().await.is_empty());

        let history = History::of(HttpHistory::new(), keeping());
        assert_eq!(ok(&history, ASK, EVENTS, &stream).await.1, stream);
        let is_call = |item: &String| item.contains("function_call");
        let until_the_first_call = items().into_iter().take_while(|item| !is_call(item)).collect();
        assert_eq!(history.log().await, [vec![USER.to_owned()], until_the_first_call].concat(), "{end}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_within_reasoning_is_not_stored() {
    let second = begun().match_indices("event: response.output_item.added").nth(1).unwrap().0;
    let history = History::of(HttpHistory::new(), keeping());
    ok(&history, ASK, EVENTS, &begun()[..second]).await;
    assert!(history.log().await.is_empty());
    let third = begun().match_indices("event: response.output_item.added").nth(2).unwrap().0;
    ok(&history, ASK, EVENTS, &begun()[..third]).await;
    assert_eq!(history.log().await, [vec![USER.to_owned()], items()[..2].to_vec()].concat());
}

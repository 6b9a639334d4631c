//! Streams of events.

use std::{sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use proptest::prelude::*;
use tower_chat_history::{
    BoxError, HistoryOptions, MemoryStore, Message, Policies,
    error::StreamStalled,
    http::HttpHistory,
    policy::OnInterruption,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_test::{FaultStore, Op};

use super::support::{ASK, EVENTS, History, JSON, answer, answer_with, ask, events, frames};

/// The chunks of a stream with reasoning, text, two calls and usage.
const CHUNKS: [&str; 10] = [
    r#"{"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Let me "}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"see."}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"Grüß"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"y","type":"function","function":{"name":"g","arguments":"{}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#,
];

/// The same reply in a whole response.
const UNARY: &str = r#"{"role":"assistant","content":"Grüß","reasoning_content":"Let me see.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"y","type":"function","function":{"name":"g","arguments":"{}"}}]}"#;

/// Returns the stream, with comments between its chunks, and line ends of all kinds.
fn stream_text() -> String {
    let ends = ["\n", "\r\n", "\r"].into_iter().cycle();
    let chunks = CHUNKS.into_iter().chain(["[DONE]"]);
    chunks.zip(ends).map(|(chunk, end)| format!(": processing{end}{end}data: {chunk}{end}{end}")).collect()
}

/// Returns a body of these pieces.
fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> UnsyncBoxBody<Bytes, BoxError> {
    frames(pieces.into_iter().map(|piece| Frame::data(Bytes::copy_from_slice(piece))).collect())
}

/// Reads a stream of these pieces through the layer. Returns the stored reply.
async fn streamed<'a>(parts: impl IntoIterator<Item = &'a [u8]>, kind: &str) -> String {
    let history = History::new();
    assert_eq!(history.ok(ASK, answer_with(kind, pieces(parts))).await.1, stream_text());
    history.log().await.remove(1)
}

#[tokio::test]
async fn a_stream_cut_at_every_byte_is_stored_like_the_whole_response() {
    let history = History::new();
    let whole = format!(r#"{{"choices":[{{"index":0,"message":{UNARY},"finish_reason":"tool_calls"}}]}}"#);
    history.ok(ASK, answer(JSON, whole)).await;
    assert_eq!(history.log().await[1], UNARY);
    let text = stream_text();
    for cut in 0..=text.len() {
        let (front, back) = text.as_bytes().split_at(cut);
        assert_eq!(streamed([front, back], EVENTS).await, UNARY, "cut at {cut}");
    }
    for kind in [EVENTS, "Text/Event-Stream; charset=utf-8", ""] {
        assert_eq!(streamed(text.as_bytes().chunks(1), kind).await, UNARY);
    }
}

#[tokio::test]
async fn the_end_is_held_until_the_exchange_is_stored() {
    let store = MemoryStore::new();
    let held = FaultStore::new(store.clone());
    let history = History::over(store, held.clone(), HttpHistory::new(), HistoryOptions::new());
    let hold = held.hold(Op::Append);
    let text = events(&["a", "0"]);
    let (front, back) = text.split_at(text.len() - 3);
    let body = pieces([front, back].map(str::as_bytes));
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), front.to_owned());
    let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap().into_data().unwrap() });
    hold.reached(1).await;
    assert!(!reading.is_finished());
    assert_eq!(history.log().await, [""; 0]);
    hold.release();
    assert_eq!(reading.await.unwrap(), back.to_owned());
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn frames_after_the_end_and_trailers_are_passed_on() {
    let trailers = HeaderMap::from_iter([("x-checksum".parse().unwrap(), HeaderValue::from_static("7"))]);
    let data = [events(&["a0"]), ": bye\n\n".into(), "data: more\n\n".into()];
    let parts = data.iter().cloned().map(|text| Frame::data(Bytes::from(text)));
    let body = frames(parts.chain([Frame::trailers(trailers)]).collect());
    let history = History::new();
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
    let mut body = response.unwrap().into_body();
    for expected in data {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
    }
    assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap()["x-checksum"], "7");
    assert!(body.frame().await.is_none());
    assert_eq!(history.log().await.len(), 2);
}

/// Returns the beginning of a stream: the first piece of its text.
fn begun() -> String {
    let text = events(&["a", "b"]);
    let (first, _) = text.split_once("data: {\"choices\":[{\"delta\":{\"content\":\"b\"").unwrap();
    first.to_owned()
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_passed_on_and_not_stored() {
    for end in ["", "data: {\"error\":{\"message\":\"x\"}}\n\n", "data: {\n\n", "event: error\ndata: {}\n\n"] {
        let history = History::new();
        let text = begun() + end;
        assert_eq!(history.ok(ASK, answer(EVENTS, text.clone())).await.1, text);
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(NotStored::Interrupted)));
        assert_eq!(history.log().await, [""; 0]);
    }
}

#[tokio::test]
async fn the_error_of_a_body_is_passed_on() {
    let items = [Ok(Frame::data(Bytes::from(begun()))), Err("broken")];
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText));
    let history = History::of(HttpHistory::new(), options);
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, StreamBody::new(stream::iter(items)))).await;
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), begun());
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "broken");
    assert!(body.frame().await.is_none());
    assert_eq!(history.log().await[1], r#"{"role":"assistant","content":"a"}"#, "the text so far");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_releases_its_connection_although_the_caller_keeps_it() {
    let text = events(&["a0"]);
    let (complete, _) = text.split_at(text.len() - "data: [DONE]\n\n".len());
    for begin in [begun(), complete.to_owned()] {
        let connection = Arc::new(());
        let held = Arc::clone(&connection);
        let begin = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(begin)))]);
        let rest = stream::poll_fn(move |_| {
            let _held = &held;
            Poll::Pending
        });
        let options = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(30));
        let history = History::of(HttpHistory::new(), options);
        let (_, response) = history.call(ask(ASK), answer_with(EVENTS, StreamBody::new(begin.chain(rest)))).await;
        let mut body = response.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&connection), 2);
        assert!(body.frame().await.is_none_or(|frame| frame.is_err()), "it has stalled");
        assert_eq!(Arc::strong_count(&connection), 1);
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_ends_with_an_error() {
    let begin = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(begun())))]);
    let body = StreamBody::new(begin.chain(stream::pending()));
    let options = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(30));
    let history = History::of(HttpHistory::new(), options);
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
    let mut body = response.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<StreamStalled>().unwrap().after, Duration::from_secs(30));
    assert!(body.frame().await.is_none());
    assert!(matches!(history.outcome(), TurnOutcome::NotStored(NotStored::Stalled)));
}

#[tokio::test]
async fn a_stream_that_is_dropped_after_the_finish_reason_is_stored() {
    let text = events(&["a0"]);
    let (front, back) = text.split_at(text.len() - "data: [DONE]\n\n".len());
    let history = History::new();
    let body = pieces([front, back].map(str::as_bytes));
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
    let mut body = response.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let (sent, _) = history.ok(r#"{"messages":[{"role":"user","content":"u1"}]}"#, answer(EVENTS, text)).await;
    assert!(sent.body.contains(r#"{"role":"assistant","content":"a0"}"#));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn a_stream_is_passed_on_byte_for_byte(
        texts in prop::collection::vec("[a-zä\u{1f600}]{0,4}", 1..5),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        tail in prop::sample::select(vec!["", ": bye\n\n", "\n"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let text = events(&texts).replace('\n', end) + tail;
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (got, log) = runtime.block_on(async {
            let history = History::new();
            let (_, got) = history.ok(ASK, answer_with(EVENTS, pieces(parts))).await;
            (got, history.log().await)
        });
        prop_assert_eq!(&got, &text);
        let reply = Message::from_json(log[1].as_str()).unwrap();
        prop_assert_eq!(reply.text(), texts.concat());
    }
}

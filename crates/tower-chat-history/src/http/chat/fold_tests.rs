//! Tests of the fold of events.

use bytes::Bytes;
use http_body::Frame;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ChatFold;
use crate::{
    adapt::{Flow, FoldReply as _},
    http::sse::SseFold,
    store::Usage,
};

fn fold(choices: usize) -> SseFold {
    SseFold::new(Box::new(ChatFold::new(choices)), 16 << 20)
}

fn data(text: impl Into<Bytes>) -> Frame<Bytes> {
    Frame::data(text.into())
}

fn folded(choices: usize, chunks: &[Value]) -> SseFold {
    let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let mut fold = self::fold(choices);
    assert_eq!(fold.push(&data(text)), Flow::Pass);
    fold
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"choices": [{"index": index, "delta": delta, "finish_reason": null}], "model": "m"})
}

fn stop(index: u32, reason: &str) -> Value {
    json!({"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
}

fn call(index: u32, mut call: Value) -> Value {
    call["index"] = index.into();
    delta(0, &json!({"tool_calls": [call]}))
}

fn calls(fold: &SseFold) -> Vec<[String; 3]> {
    let message = fold.reply().message().cloned().unwrap();
    let calls = message.tool_calls().iter();
    calls.map(|call| [call.id(), call.name(), call.arguments()].map(str::to_owned)).collect()
}

#[test]
fn text_is_complete_at_its_finish_reason_and_usage_still_comes() {
    let chunks = [
        delta(0, &json!({"role": "assistant", "content": ""})),
        delta(0, &json!({"content": "Hel"})),
        delta(0, &json!({"content": "lo"})),
        stop(0, "length"),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
    ];
    assert!(!folded(1, &chunks[..3]).is_complete());
    assert!(folded(1, &chunks[..4]).is_complete());
    let reply = folded(1, &chunks).reply();
    assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":"Hello"}"#);
    assert_eq!((reply.finish_reason.as_deref(), reply.usage), (Some("length"), Some(Usage::new(5, 2))));
    assert_eq!(reply.model.as_deref(), Some("m"));
}

#[test]
fn unknown_fields_are_kept() {
    let fold = folded(
        1,
        &[
            delta(0, &json!({"role": "assistant", "content": null, "reasoning_content": "let "})),
            delta(0, &json!({"reasoning_content": "me"})),
            delta(0, &json!({"content": "a", "cache": {"ttl": 1.5}})),
            stop(0, "end_turn"),
        ],
    );
    let expected = r#"{"role":"assistant","content":"a","reasoning_content":"let me","cache":{"ttl":1.5}}"#;
    assert_eq!(fold.reply().message().unwrap().json(), expected);
}

#[test]
fn parallel_calls_of_any_kind_are_joined_by_index() {
    let fold = folded(
        1,
        &[
            call(0, json!({"id": "x", "function": {"name": "f", "arguments": ""}, "extra_content": {"sig": "s"}})),
            call(1, json!({"id": "y", "type": "custom", "custom": {"name": "g", "input": "free "}})),
            call(0, json!({"function": {"arguments": "{\"a\":"}})),
            call(1, json!({"custom": {"input": "text"}})),
            call(0, json!({"id": "", "function": {"name": "", "arguments": "1}"}})),
            stop(0, "tool_calls"),
        ],
    );
    assert_eq!(calls(&fold), [["x", "f", "{\"a\":1}"], ["y", "g", "free text"]]);
    let json = fold.reply().message().cloned().unwrap();
    let json: Value = serde_json::from_str(json.json()).unwrap();
    assert_eq!(json["tool_calls"][0]["extra_content"], json!({"sig": "s"}));
    assert_eq!((&json["tool_calls"][0]["type"], &json["content"]), (&json!("function"), &Value::Null));
    assert_eq!(json["tool_calls"][0].get("index"), None);
}

#[test]
fn calls_with_the_same_index_are_distinguished_by_id() {
    let call =
        |id: &str, arguments: &str| call(0, json!({"id": id, "function": {"name": "f", "arguments": arguments}}));
    let fold = folded(1, &[call("x", "1"), call("y", "{"), call("", "}"), call("y", "."), stop(0, "tool_calls")]);
    assert_eq!(calls(&fold), [["x", "f", "1"], ["y", "f", "{}."]]);
}

#[test]
fn several_choices_are_complete_together_and_the_first_is_kept() {
    let chunks =
        [delta(1, &json!({"content": "b"})), stop(1, "stop"), delta(0, &json!({"content": "a"})), stop(0, "stop")];
    assert!(!folded(2, &chunks[..3]).is_complete());
    let fold = folded(2, &chunks);
    assert!(fold.is_complete());
    assert_eq!(fold.reply().message().unwrap().text(), "a");
}

#[test]
fn an_error_event_or_an_unreadable_one_makes_the_reply_incomplete() {
    let text = delta(0, &json!({"content": "a"}));
    let stop = stop(0, "stop");
    for wrong in ["data: {\"error\":{\"message\":\"x\"}}", "event: error\ndata: {}", "data: {", "data: \"a\""] {
        let mut fold = self::fold(1);
        fold.push(&data(format!("data: {text}\n\n{wrong}\n\ndata: {stop}\n\n")));
        assert!(!fold.is_complete() && !fold.is_whole(), "{wrong}");
        assert!(fold.partial().is_some_and(|reply| reply.incomplete));
    }
    let mut fold = self::fold(1);
    fold.push(&data(format!("event: keepalive\ndata: x\n\n: c\n\ndata: {stop}\n\n")));
    assert!(fold.is_complete());
}

#[test]
fn a_partial_reply_has_text_and_no_incomplete_calls() {
    let call = call(0, json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{"}}));
    assert_eq!(folded(1, std::slice::from_ref(&call)).partial(), None);
    assert_eq!(folded(1, &[delta(0, &json!({"content": ""}))]).partial(), None);
    let partial = folded(1, &[delta(0, &json!({"content": "Let me"})), call]).partial().unwrap();
    assert_eq!(partial.message().unwrap().json(), r#"{"role":"assistant","content":"Let me"}"#);
}

proptest! {
    #[test]
    fn the_reply_does_not_depend_on_how_the_bytes_are_split(
        pieces in prop::collection::vec("[a-z\u{1f600}ä\"\\\\\n]{0,4}", 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut text: String =
            pieces.iter().map(|piece| format!("data: {}\r\n\r\n", delta(0, &json!({"content": piece})))).collect();
        text.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", stop(0, "stop")));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut fold = self::fold(1);
        let flows = cuts.windows(2).map(|pair| fold.push(&data(Bytes::copy_from_slice(&text.as_bytes()[pair[0]..pair[1]]))));
        let held: Vec<bool> = flows.map(|flow| flow == Flow::Hold).collect();
        prop_assert_eq!(held.iter().filter(|held| **held).count(), 1, "only the piece that completes the stream is held");
        prop_assert!(fold.is_complete());
        let message = fold.reply().message().cloned().unwrap();
        prop_assert_eq!(message.text().into_owned(), pieces.concat());
    }
}

#[test]
fn an_error_after_the_last_finish_reason_is_ignored() {
    let fold = folded(1, &[delta(0, &json!({"content": "a"})), stop(0, "stop"), json!({"error": {"message": "late"}})]);
    assert!(fold.is_complete());
    let early =
        folded(1, &[delta(0, &json!({"content": "a"})), json!({"error": {"message": "early"}}), stop(0, "stop")]);
    assert!(!early.is_complete() && !early.is_whole());
}

#[test]
fn a_failed_choice_is_not_a_complete_reply() {
    let failed = json!({"choices": [{"index": 0, "delta": {}, "error": {"code": 502}, "finish_reason": "error"}]});
    assert!(!folded(1, &[delta(0, &json!({"content": "a"})), failed]).is_complete());
}

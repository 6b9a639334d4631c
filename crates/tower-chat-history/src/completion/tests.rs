//! Tests of folding chunks.

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_core::Usage;

use super::{ChunkFold, fold::MAX_BYTES};
use crate::{
    adapt::FoldReply as _,
    call::{Flow, Reply},
};

fn folded(choices: usize, chunks: &[Value]) -> ChunkFold {
    let mut fold = ChunkFold::new(choices);
    chunks.iter().for_each(|chunk| assert_eq!(fold.push(chunk), Flow::Pass));
    fold
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"choices": [{"index": index, "delta": delta, "finish_reason": null}], "model": "m"})
}

fn text(index: u64, text: &str) -> Value {
    delta(index, &json!({"role": "assistant", "content": text}))
}

fn stop(index: u64) -> Value {
    json!({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]})
}

fn json_of(reply: &Reply) -> String {
    reply.message().map(|message| message.json().to_owned()).unwrap_or_default()
}

fn message(fold: &ChunkFold) -> Value {
    serde_json::from_str(&json_of(&fold.reply())).unwrap()
}

#[test]
fn text_is_complete_at_its_finish_reason_and_usage_still_comes() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5.0, "completion_tokens": 2}});
    let chunks = [text(0, ""), text(0, "Hel"), delta(0, &json!({"content": "lo"})), stop(0), usage];
    assert!(!folded(1, &chunks[..3]).is_complete());
    assert!(folded(1, &chunks[..4]).is_complete());
    let reply = folded(1, &chunks).reply();
    assert_eq!(
        (reply.model.as_deref(), reply.finish_reason.as_deref(), reply.usage),
        (Some("m"), Some("stop"), Some(Usage::new(5, 2)))
    );
    assert_eq!(json_of(&reply), r#"{"role":"assistant","content":"Hello"}"#);
}

#[test]
fn a_chunk_with_a_whole_message_is_the_reply_unless_deltas_came_before() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let said = json!({"role": "assistant", "content": "Hello", "tool_calls": [call("x"), call("y")]});
    let whole = json!({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]});
    assert_eq!(message(&folded(1, std::slice::from_ref(&whole))), said);
    assert_eq!(message(&folded(1, &[text(0, "Hello"), whole]))["content"], "Hello");
}

#[test]
fn the_end_of_another_choice_does_not_end_the_reply() {
    let cut = folded(1, &[text(0, "Hel"), stop(1)]);
    assert!(!cut.is_complete() && !cut.is_whole());
    assert!(cut.partial().unwrap().incomplete);
    let whole = folded(1, &[text(0, "Hel"), stop(1), text(0, "lo"), stop(0)]);
    assert!(whole.is_complete());
    assert_eq!(message(&whole)["content"], "Hello");
}

#[test]
fn a_single_choice_is_the_reply_even_if_its_index_is_not_0() {
    let fold = folded(1, &[text(1, "Hi"), stop(1)]);
    assert!(fold.is_complete() && fold.is_whole());
    assert_eq!(message(&fold)["content"], "Hi");
}

#[test]
fn the_choice_with_the_least_index_is_kept_in_any_order() {
    let chunks = [text(2, "c"), text(1, "b"), stop(1), text(2, "c"), stop(2), text(0, "a"), stop(0)];
    assert!(!folded(3, &chunks[..6]).is_complete());
    let fold = folded(3, &chunks);
    assert!(fold.is_complete());
    assert_eq!(json_of(&fold.reply()), r#"{"role":"assistant","content":"a"}"#);
    assert!(folded(3, &chunks[5..]).is_whole(), "fewer choices came than were requested");
}

#[test]
fn a_choice_that_comes_after_the_end_does_not_replace_the_reply() {
    let fold = folded(1, &[text(1, "b"), stop(1), text(0, "a")]);
    assert!(fold.is_complete());
    assert_eq!(message(&fold)["content"], "b");
}

#[test]
fn a_reply_always_gets_the_assistant_role() {
    for role in [json!("user"), json!("tool"), json!("system"), json!(1), json!(null), json!("")] {
        let fold = folded(1, &[delta(0, &json!({"role": role, "content": "Hi"})), stop(0)]);
        assert_eq!(json_of(&fold.reply()), r#"{"role":"assistant","content":"Hi"}"#, "{role}");
    }
}

#[test]
fn unknown_fields_are_joined() {
    let fold = folded(
        1,
        &[
            delta(0, &json!({"role": "assistant", "content": "", "reasoning_content": "Let "})),
            delta(0, &json!({"reasoning_content": "me", "content": null, "details": [{"n": 1}]})),
            delta(0, &json!({"content": "Hi", "details": [{"n": 2}], "audio": {"id": "a", "data": "x"}, "score": 1})),
            delta(0, &json!({"audio": {"id": "a", "data": "y"}, "score": 2, "index": 0})),
        ],
    );
    assert_eq!(
        message(&fold),
        json!({"role": "assistant", "content": "Hi", "reasoning_content": "Let me", "details": [{"n": 1}, {"n": 2}],
            "audio": {"id": "a", "data": "xy"}, "score": 2})
    );
}

#[test]
fn calls_of_all_kinds_are_joined_and_completed() {
    let call = |call: Value| delta(0, &json!({"tool_calls": [call]}));
    let fold = folded(
        1,
        &[
            call(json!({"index": 1, "id": "y", "type": "custom", "custom": {"name": "g", "input": "free "}})),
            call(json!({"index": 0, "id": "x", "function": {"name": "f", "arguments": null}, "extra": {"sig": "s"}})),
            call(json!({"index": 1, "custom": {"input": "text"}})),
            call(json!({"index": 2, "id": "z", "custom": {"name": "h"}})),
        ],
    );
    assert_eq!(
        message(&fold),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": ""}, "extra": {"sig": "s"}},
            {"id": "y", "type": "custom", "custom": {"name": "g", "input": "free text"}},
            {"id": "z", "type": "custom", "custom": {"name": "h", "input": ""}},
        ]})
    );
    assert_eq!(fold.partial(), None);
}

#[test]
fn a_list_without_calls_is_left_out() {
    for nothing in [json!(null), json!([]), json!([null]), json!({})] {
        let fold = folded(1, &[delta(0, &json!({"content": "Hi", "tool_calls": nothing})), stop(0)]);
        assert!(fold.is_complete());
        assert_eq!(json_of(&fold.reply()), r#"{"role":"assistant","content":"Hi"}"#, "{nothing}");
    }
}

#[test]
fn chunks_that_clients_tolerate_are_read() {
    for end in [
        r#"{"choices":[{"index":0.0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":"0","delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":null,"delta":null,"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":-1,"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"choices":[{"index":0,"finish_reason":null,"finish_reason":"stop"}],"usage":null,"usage":null}"#,
        "\u{feff}{\"choices\":[{\"finish_reason\":\"stop\"}]}",
        r#"{"model":"\ud83d","\ud83d":1,"error":null,"choices":[null,7,{"finish_reason":"stop"}]}"#,
    ] {
        let mut fold = folded(1, &[text(0, "Hi")]);
        fold.push_json(r#"{"choices":null}"#);
        fold.push_json(end);
        assert!(fold.is_complete(), "{end}");
        assert_eq!(json_of(&fold.reply()), r#"{"role":"assistant","content":"Hi"}"#, "{end}");
    }
}

#[test]
fn errors_and_unreadable_chunks_do_not_complete_a_reply() {
    for wrong in [
        r#"{"error":{"message":"x"}}"#,
        r#"{"choices":[{"index":0,"delta":{},"error":{"code":502},"finish_reason":"error"}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":"f"}}]}"#,
        r#"{"choices":[{"delta":"Hi"}]}"#,
        r#"{"choices":1}"#,
        "{",
        "[]",
        "\"a\"",
        "",
    ] {
        let mut fold = folded(1, &[text(0, "a")]);
        fold.push_json(wrong);
        assert_eq!(fold.push(&stop(0)), Flow::Pass);
        assert!(!fold.is_complete() && !fold.is_whole(), "{wrong}");
        assert!(fold.partial().unwrap().incomplete);

        let mut late = folded(1, &[text(0, "a"), stop(0)]);
        late.push_json(wrong);
        assert!(late.is_complete(), "after the last finish reason: {wrong}");
    }
}

#[test]
fn a_partial_reply_does_not_end_within_a_character() {
    let mut fold = ChunkFold::new(1);
    fold.push_json(r#"{"choices":[{"index":0,"delta":{"content":"a \ud83d"}}]}"#);
    assert_eq!(fold.partial().unwrap().messages[0].json(), r#"{"role":"assistant","content":"a "}"#);
    fold.push_json(r#"{"choices":[{"index":0,"delta":{"content":"\ude00"}}]}"#);
    assert_eq!(fold.partial().unwrap().messages[0].text(), "a 😀");
    let mut only_half = ChunkFold::new(1);
    only_half.push_json(r#"{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}"#);
    assert_eq!(only_half.partial(), None);
}

#[test]
fn a_partial_reply_has_only_text() {
    let pieces = json!({"content": "Let me", "reasoning_content": "Hm", "details": [{}], "audio": {"id": "a"}, "n": 1,
        "refusal": null, "tool_calls": [{"id": "x"}], "function_call": {"name": "f"}});
    let partial = folded(1, &[delta(0, &pieces)]).partial().unwrap();
    assert_eq!(json_of(&partial), r#"{"role":"assistant","content":"Let me","reasoning_content":"Hm"}"#);
    let parts = json!([{"type": "thinking", "thinking": "a"}]);
    let partial = folded(1, &[delta(0, &json!({"content": parts}))]).partial().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json_of(&partial)).unwrap()["content"], parts);
    for nothing in [json!({"content": ""}), json!({"content": []}), json!({"reasoning_content": "Hm"})] {
        assert_eq!(folded(1, &[delta(0, &nothing)]).partial(), None, "{nothing}");
    }
}

#[test]
fn the_shape_of_another_api_is_reported() {
    let start = json!({"type": "message_start", "message": {"role": "assistant", "content": []}});
    let events = [json!({"type": "ping"}), start, json!({"type": "content_block_delta", "delta": {"text": "Hi"}})];
    let fold = folded(1, &events);
    assert!(!fold.is_complete() && !fold.is_whole());
    assert_eq!(fold.reply().unreadable.map(crate::report::ResponseShape::name), Some("Anthropic message"));
    assert_eq!(fold.reply().message(), None);
    assert_eq!(folded(1, &[json!({"usage": {}}), text(0, "a")]).reply().unreadable, None);
}

#[test]
fn a_reply_that_is_too_large_is_dropped() {
    let mut fold = folded(1, &[text(0, "a")]);
    let piece = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(1 << 20));
    for _ in 0..=MAX_BYTES >> 20 {
        fold.push_json(&piece);
    }
    assert_eq!(fold.push(&stop(0)), Flow::Pass);
    assert!(!fold.is_complete() && !fold.is_whole());
    assert_eq!(fold.partial(), None);
}

#[test]
fn a_list_of_too_many_small_elements_is_dropped() {
    let mut fold = folded(1, &[text(0, "a")]);
    let piece = format!(r#"{{"choices":[{{"delta":{{"x":[0{}]}}}}]}}"#, ",0".repeat(1 << 18));
    for _ in 0..4 {
        fold.push_json(&piece);
    }
    assert_eq!(fold.push(&stop(0)), Flow::Pass);
    assert!(!fold.is_complete() && fold.partial().is_none());
}

#[test]
fn choices_beyond_the_limit_are_not_counted() {
    let mut fold = folded(usize::MAX, &[text(5_000, "a")]);
    for index in (0..5_000).rev() {
        assert_eq!(fold.push(&stop(index)), Flow::Pass);
    }
    assert!(!fold.is_complete() && fold.is_whole());
    assert!(format!("{fold:?}").len() < 20_000);
}

#[test]
fn deep_values_are_kept_without_recursion() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut fold = ChunkFold::new(1);
    for _ in 0..2 {
        fold.push_json(&format!(
            r#"{{"x":{deep},"choices":[{{"delta":{{"content":"a","y":{{"z":{deep}}}}},"finish_reason":"stop"}}]}}"#
        ));
    }
    assert!(fold.is_complete());
    assert!(fold.reply().message().unwrap().bytes() > 200_000);
}

proptest! {
    /// One delta with a whole message, and the same message in pieces, give the same reply.
    #[test]
    fn a_reply_does_not_depend_on_how_its_text_is_split(
        content in "[a-zä\u{1f600}\"\\\\\n]{0,12}",
        reasoning in "[a-zä\"]{0,12}",
        arguments in prop::collection::vec("[a-z\"{}:\\\\]{0,8}", 0..4),
        cut in 0usize..4,
    ) {
        let calls: Vec<Value> = arguments.iter().enumerate().map(|(at, text)| {
            json!({"index": at, "id": format!("c{at}"), "type": "function", "function": {"name": "f", "arguments": text}})
        }).collect();
        let whole = json!({"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": calls});
        let mut pieces = vec![text(0, "")];
        for (name, text) in [("content", &content), ("reasoning_content", &reasoning)] {
            pieces.extend(pieces_of(text, cut).into_iter().map(|piece| delta(0, &json!({name: piece}))));
        }
        pieces.push(delta(0, &json!({"reasoning_content": ""})));
        for (at, text) in arguments.iter().enumerate() {
            let first = json!({"index": at, "id": format!("c{at}"), "type": "function", "function": {"name": "f"}});
            pieces.push(delta(0, &json!({"tool_calls": [first]})));
            pieces.extend(pieces_of(text, cut).into_iter().map(|piece| {
                delta(0, &json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}))
            }));
        }
        prop_assert_eq!(message(&folded(1, &pieces)), message(&folded(1, &[delta(0, &whole)])));
    }
}

fn pieces_of(text: &str, cut: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(cut + 1).map(|piece| piece.iter().collect()).collect()
}

//! Streams of events.

use bytes::Bytes;
use http_body::Frame;
use serde_json::Value;
use tower_chat_history_core::Message;

use super::super::ResponsesWire;
use crate::{
    adapt::{Flow, FoldReply as _},
    call::Reply,
    http::{
        sse::{Event, SseFold},
        wire::Wire as _,
    },
    report::ResponseShape,
};

/// A stream with an event of each kind.
const EVENTS: &str = include_str!("../../../../tests/http/responses_api/events.sse");

/// The same response, whole.
const WHOLE: &str = include_str!("../../../../tests/http/responses_api/response.json");

/// All kinds of events that OpenAI documents, as of November 2026, except the last events and `error`.
const KINDS: &str = "response.created response.queued response.in_progress response.output_item.added \
    response.output_item.done response.content_part.added response.content_part.done response.output_text.delta \
    response.output_text.done response.output_text.annotation.added response.refusal.delta response.refusal.done \
    response.function_call_arguments.delta response.function_call_arguments.done \
    response.custom_tool_call_input.delta response.custom_tool_call_input.done \
    response.file_search_call.in_progress response.file_search_call.searching response.file_search_call.completed \
    response.web_search_call.in_progress response.web_search_call.searching response.web_search_call.completed \
    response.reasoning_summary_part.added response.reasoning_summary_part.done \
    response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_text.delta \
    response.reasoning_text.done response.image_generation_call.in_progress \
    response.image_generation_call.generating response.image_generation_call.partial_image \
    response.image_generation_call.completed response.mcp_call_arguments.delta response.mcp_call_arguments.done \
    response.mcp_call.in_progress response.mcp_call.completed response.mcp_call.failed \
    response.mcp_list_tools.in_progress response.mcp_list_tools.completed response.mcp_list_tools.failed \
    response.code_interpreter_call.in_progress response.code_interpreter_call.interpreting \
    response.code_interpreter_call.completed response.code_interpreter_call_code.delta \
    response.code_interpreter_call_code.done response.audio.delta response.audio.done \
    response.audio.transcript.delta response.audio.transcript.done response.compaction.compacting \
    response.shell_call_command.added response.shell_call_command.delta response.shell_call_command.done \
    response.shell_call_output_content.delta response.shell_call_output_content.done";

fn whole() -> Reply {
    ResponsesWire::new().reply(WHOLE.as_bytes())
}

fn fold() -> SseFold {
    SseFold::new(ResponsesWire::new().fold(1), 16 << 20)
}

fn push(fold: &mut SseFold, text: &str) -> Flow {
    fold.push(&Frame::data(Bytes::copy_from_slice(text.as_bytes())))
}

/// Returns the fold of events with this data and no names.
fn folded(events: &[&str]) -> SseFold {
    let mut fold = fold();
    for event in events {
        push(&mut fold, &format!("data: {event}\n\n"));
    }
    fold
}

fn done(index: u64, id: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{}}}"#, message(id))
}

fn message(id: &str) -> String {
    let content = r#"[{"type":"output_text","text":"t"}]"#;
    format!(r#"{{"type":"message","role":"assistant","id":"{id}","content":{content}}}"#)
}

fn ids(reply: &Reply) -> Vec<String> {
    let id = |item: &Message| serde_json::from_str::<Value>(item.json()).unwrap()["id"].as_str().unwrap().to_owned();
    reply.messages.iter().map(id).collect()
}

#[test]
fn the_stream_has_every_documented_event() {
    for kind in KINDS.split_whitespace().chain(["keepalive", "response.new_thing.delta", "response.completed"]) {
        assert!(EVENTS.contains(&format!("event: {kind}\n")), "{kind}");
    }
    assert_eq!(whole().messages.len(), 13);
}

#[test]
fn a_stream_cut_at_every_byte_has_the_reply_of_the_whole_response() {
    let expected = whole();
    for cut in 0..=EVENTS.len() {
        let (front, back) = EVENTS.as_bytes().split_at(cut);
        let mut fold = fold();
        let flows = [front, back].map(|bytes| fold.push(&Frame::data(Bytes::copy_from_slice(bytes))));
        assert!(flows.contains(&Flow::Hold) && fold.is_complete() && fold.is_whole(), "cut at {cut}");
        assert_eq!(fold.reply(), expected, "cut at {cut}");
    }
    for end in ["\r\n", "\r"] {
        let mut fold = fold();
        assert_eq!(push(&mut fold, &EVENTS.replace('\n', end)), Flow::Hold);
        assert_eq!(fold.reply(), expected);
    }
    let unnamed: String =
        EVENTS.lines().filter(|line| !line.starts_with("event: ")).flat_map(|line| [line, "\n"]).collect();
    let mut fold = fold();
    assert_eq!(push(&mut fold, &unnamed), Flow::Hold);
    assert_eq!(fold.reply(), expected);
}

#[test]
fn an_interrupted_stream_has_the_finished_items() {
    let (all, mut fold, mut finished) = (whole().messages, fold(), 0);
    for event in EVENTS.split_inclusive("\n\n") {
        let partial = fold.partial();
        // The first item is reasoning, which says nothing without the next one. A call ends the partial reply.
        let call = all.iter().position(|item| !item.tool_calls().is_empty()).unwrap();
        let expected = (finished > 1).then(|| all[..finished.min(call)].to_vec());
        assert_eq!(partial.as_ref().map(|reply| reply.messages.clone()), expected, "before {event}");
        assert!(partial.is_none_or(|reply| reply.incomplete && reply.model.as_deref() == Some("gpt-5.5")));
        assert!(!fold.is_complete() && !fold.is_whole());
        push(&mut fold, event);
        finished += usize::from(event.starts_with("event: response.output_item.done"));
    }
    assert!(fold.is_complete() && finished == all.len());
}

#[test]
fn finished_items_are_in_the_order_of_their_index_and_none_is_missing() {
    let events = [done(2, "c"), done(0, "x"), done(1, "b"), done(0, "a"), done(4, "e")];
    let fold = folded(&events.each_ref().map(String::as_str));
    assert_eq!(ids(&fold.partial().unwrap()), ["a", "b", "c"], "the fourth one is missing");
    let unreadable = r#"{"type":"response.output_item.done","output_index":1,"item":{}}"#;
    let fold = folded(&[&done(0, "a"), unreadable, &done(2, "c")]);
    assert_eq!(ids(&fold.partial().unwrap()), ["a"]);
    assert_eq!(folded(&[unreadable, &done(2, "c")]).partial(), None);
}

#[test]
fn a_last_event_without_output_has_the_finished_items() {
    for output in ["", r#","output":[]"#] {
        let last = format!(
            r#"{{"type":"response.completed","response":{{"object":"response","id":"r","model":"m"{output}}}}}"#
        );
        let fold = folded(&[&done(1, "b"), &done(0, "a"), &last]);
        assert!(fold.is_complete());
        assert_eq!((ids(&fold.reply()), fold.reply().model.as_deref()), (vec!["a".into(), "b".into()], Some("m")));
        let fold = folded(&[&done(1, "b"), &last]);
        assert_eq!(fold.reply().unreadable, Some(ResponseShape::NoMessage), "an item is missing");
    }
    let fold = folded(&[r#"{"type":"response.completed","response":{"output":[]}}"#]);
    assert_eq!((fold.is_complete(), fold.reply()), (true, Reply::default()));
}

#[test]
fn an_incomplete_response_is_complete_and_a_failed_one_is_not() {
    let last = |kind: &str, status: &str| {
        let response = format!(
            r#"{{"status":"{status}","incomplete_details":{{"reason":"content_filter"}},"output":[{}],"usage":{{"input_tokens":3}}}}"#,
            message("a")
        );
        format!(r#"{{"response":{response},"type":"response.{kind}"}}"#)
    };
    let fold = folded(&[&last("incomplete", "incomplete")]);
    assert_eq!((ids(&fold.reply()), fold.reply().finish_reason.as_deref()), (vec!["a".into()], Some("content_filter")));
    assert!(fold.is_complete());
    let fold = folded(&[&done(0, "b"), &last("failed", "failed")]);
    assert!(!fold.is_complete() && !fold.is_whole());
    let partial = fold.partial().unwrap();
    assert_eq!((ids(&partial), partial.unreadable, partial.usage.unwrap().input_tokens), (vec!["b".into()], None, 3));
    let mut fold = self::fold();
    assert_eq!(push(&mut fold, &format!("data: {}\n\n", last("failed", "failed"))), Flow::Hold, "clients stop here");
}

#[test]
fn an_error_event_makes_the_reply_incomplete() {
    let last = r#"{"type":"response.completed","response":{"output":[]}}"#;
    for error in [
        r#"{"type":"error","code":"server_error","message":"secret","param":null,"sequence_number":1}"#,
        r#"{"error":{"message":"secret"}}"#,
    ] {
        let fold = folded(&[&done(0, "a"), error, last]);
        assert!(!fold.is_complete() && !fold.is_whole());
        assert_eq!(ids(&fold.partial().unwrap()), ["a"]);
        assert!(folded(&[last, error]).is_complete(), "it came after the last event");
    }
    let mut fold = ResponsesWire::new().fold(1);
    assert_eq!(fold.push(&Event::new("error", "not JSON")), Flow::Pass);
    assert_eq!(fold.push(&Event::new("response.completed", last)), Flow::Hold);
    assert!(!fold.is_complete());
}

#[test]
fn an_event_with_the_name_error_is_an_error_for_any_data() {
    let mut fold = ResponsesWire::new().fold(1);
    fold.push(&Event::new("error", r#"{"type":"overloaded_error","message":"secret"}"#));
    fold.push(&Event::new("", r#"{"type":"response.completed","response":{"output":[]}}"#));
    assert!(!fold.is_complete());
}

#[test]
fn a_last_event_that_cannot_be_read_completes_nothing() {
    let last = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
    for data in [&last.as_bytes()[..40], b"\xff"] {
        let mut fold = ResponsesWire::new().fold(1);
        fold.push(&Event::new("", done(0, "a")));
        fold.push(&Event::new("response.completed", data));
        assert!(!fold.is_complete());
        assert_eq!(ids(&fold.partial().unwrap()), ["a"]);
    }
}

#[test]
fn finished_items_without_an_index_are_in_the_order_of_arrival() {
    let without =
        |id: &str, index: &str| format!(r#"{{"type":"response.output_item.done"{index},"item":{}}}"#, message(id));
    let last = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
    let events = [without("a", ""), without("b", r#","output_index":"x""#), without("c", "")];
    let [a, b, c] = events.each_ref().map(String::as_str);
    assert_eq!(ids(&folded(&[a, b, c, last]).reply()), ["a", "b", "c"]);
}

#[test]
fn the_kind_of_the_last_event_counts_before_the_status() {
    let response = format!(r#"{{"status":"in_progress","output":[{}]}}"#, message("a"));
    let fold = folded(&[&format!(r#"{{"type":"response.completed","response":{response}}}"#)]);
    assert_eq!(ids(&fold.reply()), ["a"]);
}

#[test]
fn a_partial_reply_ends_before_the_first_call() {
    let item = |index: u64, item: &str| {
        format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
    };
    let reasoning = r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"}"#;
    let call = r#"{"type":"function_call","call_id":"y","name":"f","arguments":"{}"}"#;
    let fold = folded(&[&done(0, "a"), &item(1, reasoning), &item(2, call), &done(3, "b")]);
    assert_eq!(ids(&fold.partial().unwrap()), ["a"]);
    assert_eq!(folded(&[&item(0, reasoning), &item(1, call)]).partial(), None);
    let search = r#"{"type":"web_search_call","id":"ws","status":"completed","action":{}}"#;
    assert_eq!(folded(&[&item(0, search)]).partial(), None, "there is no text");
}

#[test]
fn events_that_cannot_be_read_are_left_out() {
    let last = format!(r#"{{"type":"response.completed","response":{{"output":[{}]}}}}"#, message("a"));
    let fold = folded(&["{", "x", "[]", "[DONE]", r#"{"type":7}"#, &last, "[DONE]"]);
    assert_eq!((fold.is_complete(), ids(&fold.reply())), (true, vec!["a".into()]));
    let mut fold = ResponsesWire::new().fold(1);
    assert_eq!(fold.push(&Event::new("x", b"\xff")), Flow::Pass);
    assert!(!fold.is_complete() && fold.partial().is_none());
}

#[test]
fn finished_items_take_limited_memory() {
    let large = "x".repeat(20 << 20);
    let events: Vec<String> =
        ["a", "b", "c", "d"].iter().zip(0..).map(|(id, at)| done(at, &format!("{id}{large}"))).collect();
    let mut fold = ResponsesWire::new().fold(1);
    for event in &events {
        fold.push(&Event::new("", event.as_str()));
    }
    assert_eq!(fold.partial().unwrap().messages.len(), 3);
    for index in 4..1_000 {
        fold.push(&Event::new("", done(index, "e")));
    }
    assert_eq!(fold.partial().unwrap().messages.len(), 3, "items after the limit are not counted");
    fold.push(&Event::new(
        "",
        format!(r#"{{"type":"response.completed","response":{{"output":[{}]}}}}"#, message("a")),
    ));
    assert_eq!(ids(&fold.reply()), ["a"], "the last event has all items");
}

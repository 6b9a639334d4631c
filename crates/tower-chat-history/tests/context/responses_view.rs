//! The view of logs in the items of OpenAI's Responses API.

use tower_chat_history::view::View;
use tower_chat_history_core::{Dialect, Message, OpenAiResponses};

const USER: &str = r#"{"role":"user","content":"u"}"#;
const TEXT: &str = r#"{"type":"message","role":"assistant","content":"a"}"#;
const REASONING: &str = r#"{"type":"reasoning","summary":[],"encrypted_content":"s"}"#;
const NO_REPLY: &str = r#"{"type":"message","role":"assistant","content":"[no reply]"}"#;
const UNKNOWN: &str = r#"{"type":"new_thing"}"#;

fn call(kind: &str, id: &str) -> String {
    format!(r#"{{"type":"{kind}_call","call_id":"{id}","name":"f","arguments":"{{}}","input":""}}"#)
}

fn output(kind: &str, id: &str) -> String {
    format!(r#"{{"type":"{kind}_call_output","call_id":"{id}","output":"r"}}"#)
}

/// Returns the constant output of the first call of an item.
fn abandoned(call: &str) -> String {
    OpenAiResponses.abandoned(item(call).tool_calls()[0].call_id())
}

fn item(json: &str) -> Message {
    Message::in_dialect(&OpenAiResponses, json).unwrap()
}

/// Requires that these items are sent as the expected ones.
#[track_caller]
fn sends(log: &[&str], expected: &[&str]) {
    let log: Vec<Message> = log.iter().map(|json| item(json)).collect();
    let mut view = View::default();
    view.extend(&log);
    let sent: Vec<&str> = view.messages().iter().map(Message::json).collect();
    assert_eq!(sent, expected);
}

#[test]
fn parallel_calls_leave_each_other_open() {
    let (x, y) = (call("function", "x"), call("custom_tool", "x"));
    let (rx, ry) = (output("function", "x"), output("custom_tool", "x"));
    let log = [USER, REASONING, &x, REASONING, &y, &rx, &ry, REASONING, TEXT];
    sends(&log, &log);
    let reversed = [USER, REASONING, &x, REASONING, &y, &ry, &rx, REASONING, TEXT];
    sends(&reversed, &reversed);
}

#[test]
fn the_next_reply_closes_calls_without_an_output() {
    let (x, y, rx) = (call("function", "x"), call("custom_tool", "y"), output("function", "x"));
    sends(&[USER, &x, &y, &rx, TEXT], &[USER, &x, &y, &rx, &abandoned(&y), TEXT]);
    sends(&[USER, &x, &y, USER], &[USER, &x, &y, &abandoned(&x), &abandoned(&y), NO_REPLY, USER]);
}

#[test]
fn an_output_of_another_kind_answers_nothing() {
    let (x, y, other) = (call("function", "x"), call("custom_tool", "x"), output("shell", "x"));
    sends(&[USER, &x, &other, USER], &[USER, &x, &abandoned(&x), NO_REPLY, USER]);
    let ry = output("custom_tool", "x");
    sends(&[USER, &x, &y, &ry, &ry, USER], &[USER, &x, &y, &ry, &abandoned(&x), NO_REPLY, USER]);
}

#[test]
fn reasoning_is_sent_only_before_another_item_of_its_reply() {
    let blank = r#"{"role":"assistant","content":""}"#;
    sends(&[USER, REASONING], &[USER]);
    sends(&[USER, REASONING, USER], &[USER, NO_REPLY, USER]);
    sends(&[USER, REASONING, blank, USER], &[USER, NO_REPLY, USER]);
    sends(&[USER, REASONING, blank, TEXT], &[USER, REASONING, TEXT]);
    sends(&[USER, REASONING, UNKNOWN, USER], &[USER, REASONING, UNKNOWN, USER]);
    sends(&[USER, REASONING, REASONING, TEXT], &[USER, REASONING, REASONING, TEXT]);
}

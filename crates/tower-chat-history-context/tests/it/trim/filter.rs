//! LangChain's tests of `filter_messages`, with their numbers.

use serde_json::{Value, json};
use tower_chat_history_context::{
    Message,
    trim::{MessageFilter, Speaker, filter_messages},
};

use super::{assert_unchanged, calls, message};

fn filtered(messages: &[Message], filter: &MessageFilter) -> Vec<Message> {
    assert_unchanged(messages, |messages| filter_messages(messages, filter))
}

#[test]
fn t28_names_ids_and_speakers_include_and_exclude() {
    let messages = [
        message(json!({"role": "system", "content": "foo", "name": "blah", "id": "1"})),
        message(json!({"role": "user", "content": "bar", "name": "blur", "id": "2"})),
    ];
    // LangChain's thirteen cases are variants of these, with a string, a class, or lists of these.
    let filter = MessageFilter::new;
    for filter in [
        filter().include_names(["blur"]),
        filter().exclude_names(["blah"]),
        filter().include_ids(["2"]),
        filter().exclude_ids(["1"]),
        filter().include([Speaker::User]),
        filter().exclude([Speaker::System]),
        filter().include_names(["blah", "blur"]).exclude([Speaker::System]),
    ] {
        assert_eq!(filtered(&messages, &filter), messages[1..], "{filter:?}");
    }
}

/// Returns a conversation whose fourth message makes the calls with these ids and has this content.
fn with_calls(content: &Value, ids: &[&str]) -> [Message; 6] {
    let call = |id: &&str| {
        let name = if *id == "1" { "foo" } else { "bar" };
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
    };
    let calls: Vec<_> = ids.iter().map(call).collect();
    [
        json!({"role": "user", "content": "foo", "name": "blah", "id": "1"}),
        json!({"role": "assistant", "content": "foo-response", "name": "blah", "id": "2"}),
        json!({"role": "user", "content": "bar", "name": "blur", "id": "3"}),
        json!({"role": "assistant", "content": content, "tool_calls": calls, "id": "4"}),
        json!({"role": "tool", "content": "baz", "tool_call_id": "1", "id": "5"}),
        json!({"role": "tool", "content": "qux", "tool_call_id": "2", "id": "6"}),
    ]
    .map(message)
}

#[test]
fn t29_calls_are_left_out_with_their_results() {
    let content = json!("bar-response");
    let messages = with_calls(&content, &["1", "2"]);
    assert_eq!(filtered(&messages, &MessageFilter::new().exclude_tool_calls()), messages[..3]);
    assert_eq!(filtered(&messages, &MessageFilter::new().exclude_tool_call_ids(["1", "2"])), messages[..3]);
    let one = with_calls(&content, &["1"]);
    assert_same(&filtered(&messages, &MessageFilter::new().exclude_tool_call_ids(["2"])), &one[..5]);
}

#[test]
fn t30_calls_in_the_content_are_left_out() {
    let text = json!({"text": "bar-response", "type": "text"});
    let tool_use = |name: &str, id: &str| json!({"name": name, "type": "tool_use", "id": id});
    let messages = with_calls(&json!([text, tool_use("foo", "1"), tool_use("bar", "2")]), &["1", "2"]);
    assert_eq!(filtered(&messages, &MessageFilter::new().exclude_tool_calls()), messages[..3]);
    assert_eq!(filtered(&messages, &MessageFilter::new().exclude_tool_call_ids(["1", "2"])), messages[..3]);
    let other = with_calls(&json!([text, tool_use("bar", "2")]), &["2"]);
    let expected = [&other[..4], &other[5..]].concat();
    assert_same(&filtered(&messages, &MessageFilter::new().exclude_tool_call_ids(["1"])), &expected);
}

/// Asserts equality, regardless of the order of the fields.
fn assert_same(filtered: &[Message], expected: &[Message]) {
    assert_eq!(serde_json::to_value(filtered).unwrap(), serde_json::to_value(expected).unwrap());
}

#[test]
fn one_condition_that_includes_is_enough_and_one_that_excludes_too() {
    let messages = with_calls(&json!("bar-response"), &["1", "2"]);
    let filter = MessageFilter::new().include([Speaker::User]).include_ids(["2", "6"]).exclude_ids(["3"]);
    let expected = [0, 1, 5].map(|index: usize| messages[index].clone());
    assert_eq!(filtered(&messages, &filter), expected);
}

#[test]
fn no_condition_or_an_empty_one_keeps_everything() {
    let messages = with_calls(&json!("bar-response"), &["1", "2"]);
    let none: [&str; 0] = [];
    let empty = MessageFilter::new().include([]).include_names(none).include_ids(none).exclude([]).exclude_names(none);
    for filter in [MessageFilter::new(), empty, MessageFilter::new().exclude_tool_call_ids(none)] {
        assert_eq!(filtered(&messages, &filter), messages);
    }
}

#[test]
fn developer_messages_count_as_system_messages() {
    let messages = [Message::developer("d"), Message::system("s"), Message::user("u")];
    assert_eq!(filtered(&messages, &MessageFilter::new().exclude([Speaker::System])), messages[2..]);
}

#[test]
fn results_stay_if_their_calls_are_excluded_by_speaker() {
    let messages = [Message::user("u"), calls(&["x"]), Message::tool("x", "r")];
    let kept = filtered(&messages, &MessageFilter::new().exclude([Speaker::Assistant]));
    assert_eq!(kept, [messages[0].clone(), messages[2].clone()]);
}

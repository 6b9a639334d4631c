//! LangChain's tests of `merge_message_runs`, with their numbers.

use serde_json::json;
use tower_chat_history_context::{Message, trim::merge_message_runs};

use super::{assert_unchanged, calls, message};

fn merged(messages: &[Message], separator: &str) -> Vec<Message> {
    assert_unchanged(messages, |messages| merge_message_runs(messages, separator))
}

fn call(id: &str, arguments: &str) -> serde_json::Value {
    json!({"id": id, "type": "function", "function": {"name": "foo_tool", "arguments": arguments}})
}

/// Asserts equality, regardless of the order of the fields.
fn assert_same(merged: &[Message], expected: &serde_json::Value) {
    assert_eq!(&serde_json::to_value(merged).unwrap(), expected);
}

#[test]
fn t22_to_t24_texts_are_joined_by_the_separator() {
    for (separator, expected) in [("\n", "foo\nbar\nbaz"), ("<sep>", "foo<sep>bar<sep>baz"), ("", "foobarbaz")] {
        for speak in [Message::user, Message::assistant, Message::system] {
            let messages = ["foo", "bar", "baz"].map(speak);
            let merged = merged(&messages, separator);
            assert_eq!((merged.len(), &*merged[0].text()), (1, expected));
            assert_eq!(merged[0].role(), messages[0].role());
        }
    }
}

#[test]
fn t25_the_first_id_and_response_metadata_are_kept() {
    let messages = [("foo", "1", 1), ("bar", "2", 2)].map(|(content, id, tokens)| {
        message(
            json!({"role": "assistant", "content": content, "id": id, "response_metadata": {"input_tokens": tokens}}),
        )
    });
    assert_same(
        &merged(&messages, "\n"),
        &json!([{"role": "assistant", "content": "foo\nbar", "id": "1", "response_metadata": {"input_tokens": 1}}]),
    );
}

#[test]
fn t26_texts_and_parts_become_parts_and_calls_are_concatenated() {
    let (bar, image) = (json!({"text": "bar", "type": "text"}), json!({"image_url": "...", "type": "image_url"}));
    let messages = [
        json!({"role": "assistant", "content": "foo", "id": "1"}),
        json!({"role": "assistant", "content": [bar, image], "tool_calls": [call("tool1", "{\"x\":1}")], "id": "2"}),
        json!({"role": "assistant", "content": "baz", "tool_calls": [call("tool2", "{\"x\":5}")], "id": "3"}),
    ]
    .map(message);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_same(
        &merged(&messages, "\n"),
        &json!([{
            "role": "assistant",
            // LangChain's plain strings become text parts, which providers accept.
            "content": [text("foo"), bar, image, text("baz")],
            "tool_calls": [call("tool1", "{\"x\":1}"), call("tool2", "{\"x\":5}")],
            "id": "1",
        }]),
    );
}

#[test]
fn t27_results_are_not_merged() {
    let messages = [Message::tool("1", "foo"), Message::tool("2", "bar")];
    assert_eq!(merged(&messages, "\n"), messages);
    let function = |text: &str| message(json!({"role": "function", "name": "f", "content": text}));
    let messages = [function("foo"), function("bar")];
    assert_eq!(merged(&messages, "\n"), messages);
}

#[test]
fn unmerged_messages_stay_byte_for_byte() {
    let odd = r#"{ "content" : "a", "role":"user", "x": 1.50 }"#;
    let messages =
        [Message::system("s"), Message::from_json(odd).unwrap(), Message::assistant("b"), Message::user("c")];
    let kept = merged(&messages, "\n");
    assert_eq!(kept, messages);
    assert_eq!(kept[1].json(), odd);
    assert_eq!(merged(&[], "\n"), []);
}

#[test]
fn a_separator_is_only_between_two_texts() {
    assert_eq!(merged(&["", "bar"].map(Message::user), "\n")[0].text(), "bar");
    assert_eq!(merged(&["foo", ""].map(Message::user), "\n")[0].text(), "foo");
    let messages = [calls(&["x"]), Message::assistant("said")];
    let merged = merged(&messages, "\n");
    assert_eq!((merged.len(), &*merged[0].text(), merged[0].tool_calls().len()), (1, "said", 1));
}

#[test]
fn a_name_stays_if_both_have_it() {
    let named = |name: &str| message(json!({"role": "user", "content": "a", "name": name}));
    assert_eq!(merged(&[named("ann"), named("ann")], "\n")[0].name(), Some("ann"));
    assert_eq!(merged(&[named("ann"), named("ben")], "\n")[0].name(), None);
    assert_eq!(merged(&[named("ann"), Message::user("b")], "\n")[0].name(), None);
}

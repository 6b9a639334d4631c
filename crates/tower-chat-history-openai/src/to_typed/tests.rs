use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::from_request_messages;

fn sent(message: Value) -> (Value, bool) {
    let converted = request_message(&Message::try_from(message).unwrap());
    (serde_json::to_value(converted.message).unwrap(), converted.downgraded)
}

#[test]
fn messages_that_the_types_know_are_converted_completely() {
    for message in [
        json!({"role": "user", "content": "hi", "name": "Nemo"}),
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}]}),
        json!({"role": "assistant", "content": "hello"}),
        json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
        json!({"role": "assistant", "refusal": "I can't"}),
        json!({"role": "assistant", "audio": {"id": "audio-1"}}),
        json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{"}}),
        json!({"role": "assistant", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": "not json"}},
            {"id": "y", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "x", "content": "r"}),
        json!({"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "r"}]}),
        json!({"role": "system", "content": "s"}),
        json!({"role": "developer", "content": "d", "name": "n"}),
        json!({"role": "function", "name": "f", "content": "r"}),
    ] {
        assert_eq!(sent(message.clone()), (message, false));
    }
}

#[test]
fn reasoning_fields_next_to_tool_calls_are_found() {
    let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let signed = json!({"id": "x", "extra_content": {"google": {}}, "function": {"name": "f", "arguments": ""}});
    for (message, expected) in [
        (json!({"role": "assistant", "reasoning_content": "", "tool_calls": [call]}), true),
        (json!({"role": "assistant", "reasoning_details": [], "tool_calls": [call]}), true),
        (json!({"role": "assistant", "tool_calls": [signed]}), true),
        (json!({"role": "assistant", "annotations": [], "tool_calls": [call]}), false),
        (json!({"role": "assistant", "reasoning_content": "a", "content": "b"}), false),
        (json!({"role": "assistant", "content": "say \"reasoning_content\"", "tool_calls": [call]}), false),
    ] {
        assert_eq!(loses_reasoning(&Message::try_from(message.clone()).unwrap()), expected, "{message}");
    }
}

#[test]
fn parts_that_the_types_do_not_know_are_left_out_and_reported() {
    let text = json!({"type": "text", "text": "a"});
    for (message, expected) in [
        (
            json!({"role": "assistant", "content": "a", "reasoning_content": "r"}),
            json!({"role": "assistant", "content": "a"}),
        ),
        (json!({"role": "user", "content": [{"type": "video_url"}, text]}), json!({"role": "user", "content": [text]})),
        (json!({"role": "user", "content": [{"type": "video_url"}]}), json!({"role": "user", "content": ""})),
        (json!({"role": "user", "content": {"odd": 1}}), json!({"role": "user", "content": "{\"odd\":1}"})),
        (
            json!({"role": "assistant", "audio": {"id": "a", "data": "…"}}),
            json!({"role": "assistant", "audio": {"id": "a"}}),
        ),
        (
            json!({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}),
            json!({"role": "user", "content": [text]}),
        ),
        (
            json!({"role": "tool", "tool_call_id": "x", "name": "f", "content": "r"}),
            json!({"role": "tool", "tool_call_id": "x", "content": "r"}),
        ),
        (
            json!({"role": "function", "name": "f", "content": {"a": 1}}),
            json!({"role": "function", "name": "f", "content": "{\"a\":1}"}),
        ),
        (
            json!({"role": "assistant", "refusal": "no", "function_call": {"arguments": {}}}),
            json!({"role": "assistant", "refusal": "no"}),
        ),
        (json!({"role": "narrator", "content": "a"}), Value::Null),
        (json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}]}), Value::Null),
        (json!({"role": "assistant", "audio": {"data": "…"}}), Value::Null),
    ] {
        assert_eq!(sent(message), (expected, true));
    }
}

fn any_typed() -> impl Strategy<Value = ChatCompletionRequestMessage> {
    let text = "[a-z\\n\"\\\\ä]{1,6}";
    prop_oneof![
        text.prop_map(|text| json!({"role": "user", "content": text})),
        text.prop_map(|text| json!({"role": "user", "content": [{"type": "text", "text": text}]})),
        text.prop_map(|text| json!({"role": "system", "content": text, "name": "n"})),
        text.prop_map(|text| json!({"role": "assistant", "content": text, "refusal": text})),
        text.prop_map(|text| json!({"role": "assistant", "tool_calls":
            [{"id": text, "type": "function", "function": {"name": "f", "arguments": text}}]})),
        text.prop_map(|text| json!({"role": "tool", "tool_call_id": "x", "content": text})),
        text.prop_map(|text| json!({"role": "function", "name": "f", "content": text})),
    ]
    .prop_map(|json| serde_json::from_value(json).unwrap())
}

proptest! {
    #[test]
    fn typed_messages_are_unchanged_after_conversion_to_the_log_and_back(messages in prop::collection::vec(any_typed(), 0..6)) {
        let converted = to_request_messages(&from_request_messages(&messages));
        prop_assert_eq!(converted, Converted { messages, downgraded: 0 });
    }

    #[test]
    fn any_message_of_a_log_is_converted_or_counted(json in "\\{\"role\":\"(user|assistant|tool|x)\",\"(content|refusal|y)\":(1|null|\"a\"|\\[\\{\\}\\])\\}") {
        let message = Message::from_json(json).unwrap();
        let converted = to_request_messages([&message]);
        prop_assert!(converted.messages.len() == 1 || converted.downgraded == 1);
    }
}

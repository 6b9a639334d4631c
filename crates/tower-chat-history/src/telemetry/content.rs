//! The content of messages, in the JSON of OpenTelemetry's conventions: a list of messages with parts.
//!
//! System messages are part of the list, because they are sent as messages. For a part that is not text, only its
//! type is written: images and audio are too large for a span. Signatures and encrypted reasoning are not written.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tower_chat_history_core::{CallId, Message, Part};

use crate::call::Reply;

/// Returns the value of `gen_ai.input.messages`.
pub(super) fn input<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    Value::from_iter(messages.into_iter().map(|message| Value::Object(object(message)))).to_string()
}

/// Returns the value of `gen_ai.output.messages`. The conventions require one message for a reply, so it has the parts
/// of all elements.
pub(super) fn output(reply: &Reply) -> String {
    let role = reply.messages.first().map_or("assistant", |first| first.role().as_str());
    let mut whole = object_of(role, reply.messages.iter().flat_map(parts));
    if let Some(reason) = &reply.finish_reason {
        whole.insert("finish_reason".to_owned(), reason.as_str().into());
    }
    Value::from_iter([Value::Object(whole)]).to_string()
}

fn object(message: &Message) -> Map<String, Value> {
    object_of(message.role().as_str(), parts(message))
}

fn object_of(role: &str, parts: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    Map::from_iter([("role".to_owned(), role.into()), ("parts".to_owned(), Value::from_iter(parts))])
}

/// Returns the parts of a message, its results first.
fn parts(message: &Message) -> Vec<Value> {
    // The text of a result can have several parts, or none.
    let mut responses: Vec<(&CallId, String)> = Vec::new();
    let mut places: HashMap<&CallId, usize> = HashMap::new();
    for call in message.answers() {
        places.entry(call).or_insert_with(|| {
            responses.push((call, String::new()));
            responses.len() - 1
        });
    }

    let mut others = Vec::new();
    message.parts(&mut |part| match part {
        Part::Result { call, text } => {
            if let Some((_, response)) = places.get(call).and_then(|place| responses.get_mut(*place)) {
                response.push_str(&text);
            }
        }
        part => others.extend(self::part(message, &part)),
    });

    let mut parts = Vec::with_capacity(responses.len() + others.len());
    for (call, response) in responses {
        parts.push(json!({"type": "tool_call_response", "id": call.as_str(), "response": response}));
    }
    parts.extend(others);
    parts
}

/// Returns a part that is no result. Names and sealed data are not written.
fn part(message: &Message, part: &Part<'_>) -> Option<Value> {
    Some(match part {
        Part::Text(text) => json!({"type": "text", "content": text}),
        Part::Reasoning(text) => json!({"type": "reasoning", "content": text}),
        Part::Refusal(_) => json!({"type": "refusal"}),
        Part::Call(call) => json!({
            "type": "tool_call",
            "id": call.id(),
            "name": call.name(),
            "arguments": arguments(call.arguments()),
        }),
        Part::OtherCall { name, arguments } => {
            json!({"type": "tool_call", "name": name, "arguments": self::arguments(arguments)})
        }
        // The whole message has fields of an unknown form. Its other parts are written.
        Part::Other { text, .. } if text == message.json() => return None,
        Part::Other { kind, text } if kind.is_empty() && !text.starts_with(['{', '[']) => {
            json!({"type": "text", "content": text})
        }
        Part::Other { kind, .. } if kind.is_empty() => json!({"type": "unknown"}),
        Part::Media { kind, .. } | Part::Other { kind, .. } => json!({"type": kind}),
        _ => return None,
    })
}

/// Returns the arguments of a call. They are mostly JSON. Other texts are written as a string.
fn arguments(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments))
}

#[cfg(test)]
mod tests {
    use test_providers::signing::SigningDialect;

    use super::*;

    fn message(json: &Value) -> Message {
        Message::from_serialize(json).unwrap()
    }

    #[test]
    fn messages_are_written_in_the_format_of_the_conventions() {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
        let image = json!({"type": "image_url", "image_url": {"url": "data:..."}});
        let messages = [
            message(&json!({"role": "system", "content": "s"})),
            message(&json!({"role": "user", "content": [{"type": "text", "text": "u"}, image]})),
            message(&json!({"role": "assistant", "content": null, "tool_calls": [call]})),
            message(&json!({"role": "tool", "tool_call_id": "c", "content": "r"})),
        ];
        let written: Value = serde_json::from_str(&input(&messages)).unwrap();
        assert_eq!(
            written,
            json!([
                {"role": "system", "parts": [{"type": "text", "content": "s"}]},
                {"role": "user", "parts": [{"type": "text", "content": "u"}, {"type": "image_url"}]},
                {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"x": 1}}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "r"}]},
            ])
        );
    }

    #[test]
    fn a_reply_has_its_finish_reason() {
        let mut reply = Reply::new(Message::assistant("a"));
        reply.finish_reason = Some("stop".to_owned());
        let written: Value = serde_json::from_str(&output(&reply)).unwrap();
        let parts = json!([{"type": "text", "content": "a"}]);
        assert_eq!(written, json!([{"role": "assistant", "parts": parts, "finish_reason": "stop"}]));
    }

    #[test]
    fn a_reply_of_several_elements_is_one_message_and_results_are_responses() {
        let element = |json: &str| Message::in_dialect(&SigningDialect, json).unwrap();
        let results = r#"{"from":"user","results":[{"to":"x","kind":"g","text":"20"},{"to":"x","kind":"f","text":"-3"}],"text":"Well?"}"#;
        let written: Value = serde_json::from_str(&input(&[element(results)])).unwrap();
        let response = |text: &str| json!({"type": "tool_call_response", "id": "x", "response": text});
        let text = json!({"type": "text", "content": "Well?"});
        assert_eq!(written, json!([{"role": "user", "parts": [response("20"), response("-3"), text]}]));

        let reply = Reply::of(
            [
                r#"{"from":"model","thinking":"hm","signature":"secret","text":"Let me see."}"#,
                r#"{"from":"model","sealed":"secret","by":"one"}"#,
                r#"{"from":"model","call":{"id":"x","kind":"g","name":"look","input":"not JSON"}}"#,
            ]
            .map(element),
        );
        let written: Value = serde_json::from_str(&output(&reply)).unwrap();
        let parts = json!([
            {"type": "reasoning", "content": "hm"},
            {"type": "text", "content": "Let me see."},
            {"type": "tool_call", "id": "x", "name": "look", "arguments": "not JSON"},
        ]);
        assert_eq!(written, json!([{"role": "assistant", "parts": parts}]));
    }

    #[test]
    fn parts_of_unknown_forms_are_written_without_their_data() {
        let odd = message(&json!({"role": "user", "content": [
            "bare", {"text": "untyped"}, {"data": "secret"}, {"type": "thing", "data": "secret"},
        ]}));
        let written: Value = serde_json::from_str(&input(&[odd])).unwrap();
        let text = |text: &str| json!({"type": "text", "content": text});
        let parts = json!([text("bare"), text("untyped"), {"type": "unknown"}, {"type": "thing"}]);
        assert_eq!(written, json!([{"role": "user", "parts": parts}]));

        let refused = message(&json!({"role": "assistant", "content": null, "refusal": "no"}));
        assert_eq!(input(&[refused]), r#"[{"parts":[{"type":"refusal"}],"role":"assistant"}]"#);
        let unread = message(&json!({"role": "assistant", "content": "a", "refusal": {"odd": "secret"}}));
        assert_eq!(input(&[unread]), r#"[{"parts":[{"content":"a","type":"text"}],"role":"assistant"}]"#);
    }
}

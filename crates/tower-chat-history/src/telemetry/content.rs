//! The content of messages, in the JSON of OpenTelemetry's conventions: a list of messages with parts.
//!
//! System messages are part of the list, because they are sent as messages. For a part that is not text, only its
//! type is written: images and audio are too large for a span.

use serde_json::{Map, Value, json};
use tower_chat_history_core::{Content, Message};

use crate::call::Reply;

/// Returns the value of `gen_ai.input.messages`.
pub(super) fn input<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    Value::from_iter(messages.into_iter().map(|message| Value::Object(object(message)))).to_string()
}

/// Returns the value of `gen_ai.output.messages`.
pub(super) fn output(reply: &Reply) -> String {
    let mut objects: Vec<_> = reply.messages.iter().map(object).collect();
    if let (Some(last), Some(reason)) = (objects.last_mut(), &reply.finish_reason) {
        last.insert("finish_reason".to_owned(), reason.as_str().into());
    }
    Value::from(objects).to_string()
}

fn object(message: &Message) -> Map<String, Value> {
    let mut parts = match message.tool_call_id() {
        Some(id) => vec![json!({"type": "tool_call_response", "id": id, "response": message.text()})],
        None => content_parts(message),
    };
    parts.extend(message.tool_calls().iter().map(|call| {
        // Arguments are mostly JSON. Other texts are written as a string.
        let arguments = serde_json::from_str(call.arguments()).unwrap_or_else(|_| Value::from(call.arguments()));
        json!({"type": "tool_call", "id": call.id(), "name": call.name(), "arguments": arguments})
    }));
    Map::from_iter([("role".to_owned(), message.role().as_str().into()), ("parts".to_owned(), parts.into())])
}

fn content_parts(message: &Message) -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "content": text});
    match message.content() {
        Content::Text(content) => vec![text(&content)],
        Content::Parts(parts) => parts.into_iter().map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(json: &str) -> Value {
    let part: Value = serde_json::from_str(json).unwrap_or_default();
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text") | None, Some(text)) => json!({"type": "text", "content": text}),
        (kind, _) => json!({"type": kind.unwrap_or("unknown")}),
    }
}

#[cfg(test)]
mod tests {
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
}

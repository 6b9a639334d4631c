//! Messages that `serde_json` cannot read as a `Value`.

use serde_json::{Map, Value, json};
use tower_chat_history_core::{Message, ToolCall};

/// Makes a message from the fields that [`Message`] has parsed: role, text, name, tool calls and tool call id. All
/// other fields are lost.
pub(super) fn from_parsed_fields(message: &Message) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("role", message.role().as_str().into());
    set("content", message.text().into());
    if let Some(name) = message.name() {
        set("name", name.into());
    }
    if let Some(id) = message.tool_call_id() {
        set("tool_call_id", id.into());
    }
    if !message.tool_calls().is_empty() {
        set("tool_calls", message.tool_calls().iter().map(call).collect());
    }
    Value::Object(fields)
}

fn call(call: &ToolCall) -> Value {
    if call.is_custom() {
        json!({"id": call.id(), "type": "custom", "custom": {"name": call.name(), "input": call.arguments()}})
    } else {
        json!({"id": call.id(), "type": "function", "function": {"name": call.name(), "arguments": call.arguments()}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_message_keeps_its_text_and_tool_calls() {
        let json = r#"{"role":"assistant","content":"a \ud800 b","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
        assert!(serde_json::from_str::<Value>(json).is_err());
        let message = Message::from_json(json).unwrap();
        assert_eq!(
            from_parsed_fields(&message),
            json!({"role": "assistant", "content": message.text(), "tool_calls":
                [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
        );
        let result = from_parsed_fields(&Message::tool("x", "1"));
        assert_eq!(result, json!({"role": "tool", "content": "1", "tool_call_id": "x"}));
    }
}

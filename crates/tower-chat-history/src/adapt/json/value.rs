//! Messages that `serde_json` cannot read as a `Value`.

use serde_json::{Map, Value, json, value::RawValue};
use tower_chat_history_core::{
    Message, ToolCall,
    json::{raw_entries, text},
};

/// Makes a message from the fields that can be read, each by itself, and from those that [`Message`] has parsed. All
/// other fields are lost.
pub(super) fn from_readable_fields(message: &Message) -> Value {
    let fields = message.fields().unwrap_or_default();
    let readable = |(name, json): (String, &RawValue)| {
        let value = serde_json::from_str(json.get()).ok().or_else(|| parsed(message, &name, json))?;
        Some((name, value))
    };
    Value::Object(fields.into_iter().filter_map(readable).collect::<Map<_, _>>())
}

/// Returns the value of a field that cannot be read, from those that the message has parsed.
fn parsed(message: &Message, name: &str, json: &RawValue) -> Option<Value> {
    match name {
        "role" => Some(message.role().as_str().into()),
        "content" => Some(message.text().into()),
        "name" => message.name().map(Value::from),
        "tool_call_id" => message.tool_call_id().map(Value::from),
        "tool_calls" => Some(calls(message, json)),
        "reasoning_content" => text(json.get()).map(Value::from),
        _ => None,
    }
}

/// Returns the calls. Those that can be read stay as they are.
fn calls(message: &Message, json: &RawValue) -> Value {
    let entries = raw_entries(json.get()).unwrap_or_default();
    let calls = message.tool_calls();
    if entries.len() != calls.len() {
        return calls.iter().map(call).collect();
    }
    let readable =
        |(entry, parsed): (&&RawValue, &ToolCall)| serde_json::from_str(entry.get()).unwrap_or_else(|_| call(parsed));
    entries.iter().zip(calls).map(readable).collect()
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
            from_readable_fields(&message),
            json!({"role": "assistant", "content": message.text(), "tool_calls":
                [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
        );
        let result = from_readable_fields(&Message::tool("x", "1"));
        assert_eq!(result, json!({"role": "tool", "content": "1", "tool_call_id": "x"}));
    }

    #[test]
    fn an_unreadable_message_keeps_the_fields_that_can_be_read() {
        let signed = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "s"}}});
        let message = |reasoning: &str| {
            let other = r#"{"id":"y","function":{"name":"g","arguments":"\ud800"},"x":1}"#;
            let json = format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{signed},{other}],"x":1e999,"reasoning_content":{reasoning}}}"#
            );
            from_readable_fields(&Message::from_json(json).unwrap())
        };
        let other =
            json!({"id": "y", "type": "function", "function": {"name": "g", "arguments": "\u{fffd}\u{fffd}\u{fffd}"}});
        let expected = |reasoning: &str| json!({"role": "assistant", "content": null, "tool_calls": [signed, other], "reasoning_content": reasoning});
        assert_eq!(message("\"\""), expected(""));
        assert_eq!(message(r#""a \ud800""#), expected("a \u{fffd}\u{fffd}\u{fffd}"));
    }

    #[test]
    fn reasoning_content_is_that_of_its_own_field() {
        let json = r#"{"role":"assistant","content":"b","reasoning_content":"a \ud800",
            "thinking_blocks":[{"type":"thinking","thinking":"c","signature":"s"}]}"#;
        let value = from_readable_fields(&Message::from_json(json).unwrap());
        assert_eq!(value["reasoning_content"], "a \u{fffd}\u{fffd}\u{fffd}");
        let json = r#"{"role":"assistant","content":"b","reasoning":"c","reasoning_content":{"steps":1e999}}"#;
        let value = from_readable_fields(&Message::from_json(json).unwrap());
        assert_eq!(value, json!({"role": "assistant", "content": "b", "reasoning": "c"}));
    }
}

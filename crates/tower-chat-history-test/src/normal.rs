//! Messages as a model sees them: without reasoning, cache marks and differences of spelling.

use serde_json::{Map, Value, json};
use tower_chat_history_core::{Digest, Message};

/// Returns the JSON of a message, or a text that has the whole message if it is nested too deeply.
pub(crate) fn value(message: &Message) -> Value {
    serde_json::from_str(message.json()).unwrap_or_else(|_| json!({ "content": message.json() }))
}

/// Returns the digest of a message, without its reasoning.
pub(crate) fn digest(message: &Value) -> Digest {
    let role = match message["role"].as_str() {
        Some("developer") => "system",
        Some(role) => role,
        None => "",
    };
    let calls: Vec<Value> = calls(message).iter().map(call).collect();
    let seen =
        json!({ "role": role, "content": blocks(message), "calls": calls, "answers": message["tool_call_id"].clone() });
    digest_of(&seen)
}

/// Returns the digest of a call: its id, its name and its arguments.
pub(crate) fn call_digest(json: &Value) -> Digest {
    digest_of(&call(json))
}

/// Returns the digest of a request's tools.
pub(crate) fn tools_digest(tools: Option<&str>) -> Digest {
    match tools.map(serde_json::from_str::<Value>) {
        None | Some(Ok(Value::Null)) => Digest::of(b"[]"),
        Some(Ok(tools)) => digest_of(&tools),
        Some(Err(_)) => Digest::of(tools.unwrap_or_default().as_bytes()),
    }
}

/// Returns the parts of the content. A text is one part.
pub(crate) fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(parts) => parts.clone(),
        other => vec![other.clone()],
    }
}

/// Returns the calls of a message.
pub(crate) fn calls(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

fn call(call: &Value) -> Value {
    let parts = if call["custom"].is_object() { &call["custom"] } else { &call["function"] };
    let input = if call["custom"].is_object() { &parts["input"] } else { &parts["arguments"] };
    let parsed = input.as_str().and_then(|input| serde_json::from_str(input).ok());
    json!({ "id": call["id"].clone(), "name": parts["name"].clone(), "input": parsed.unwrap_or_else(|| input.clone()) })
}

/// Returns the digest of a value, whatever the order of its fields, without `cache_control`.
pub(crate) fn digest_of(value: &Value) -> Digest {
    Digest::of(sorted(value).to_string().as_bytes())
}

/// Returns the value with sorted fields, and without `cache_control`. The value was parsed, so it has at most 128
/// levels and a few more of this module.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().filter(|name| *name != "cache_control").collect();
            names.sort_unstable();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect::<Map<_, _>>())
        }
        Value::Array(elements) => elements.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

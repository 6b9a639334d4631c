//! The JSON form of a message of LangChain.

use serde_json::{Map, Value, json};
use tower_chat_history_core::Usage;

use crate::transfer::foreign::{
    conversation::ForeignMessage,
    json::{message, text},
};

/// Reads a message, as `message_to_dict` or `model_dump` returns it. Returns `Ok(None)` for a mark that removes
/// messages, and `Err` if it is not a message.
pub(in crate::transfer::foreign) fn read(value: &Value, left_out: &mut u64) -> Result<Option<ForeignMessage>, ()> {
    let kind = value.get("type").and_then(Value::as_str).ok_or(())?;
    let data = value.get("data").filter(|data| data.is_object()).unwrap_or(value);
    let mut fields = Map::new();
    let role = match kind {
        "human" | "HumanMessageChunk" => "user",
        "ai" | "AIMessageChunk" => "assistant",
        "system" | "SystemMessageChunk" => "system",
        "tool" | "ToolMessageChunk" => "tool",
        "function" | "FunctionMessageChunk" => "function",
        "chat" | "ChatMessageChunk" => data.get("role").and_then(Value::as_str).ok_or(())?,
        "remove" => return Ok(None),
        _ => return Err(()),
    };
    fields.insert("role".into(), role.into());
    if let Some(name) = data.get("name").and_then(Value::as_str) {
        fields.insert("name".into(), name.into());
    }
    let calls = calls(data)?;
    let content = content(data.get("content").unwrap_or(&Value::Null), left_out)?;
    let is_empty = content == json!("");
    fields.insert("content".into(), if is_empty && calls.is_some() { Value::Null } else { content });
    let more = data.get("additional_kwargs");
    for name in ["reasoning_content", "refusal", "function_call"] {
        if let Some(value) = more.and_then(|more| more.get(name)).filter(|value| !value.is_null()) {
            fields.insert(name.into(), value.clone());
        }
    }
    if let Some(calls) = calls {
        fields.insert("tool_calls".into(), calls);
    }
    if role == "tool" {
        let id = data.get("tool_call_id").and_then(Value::as_str).ok_or(())?;
        fields.insert("tool_call_id".into(), id.into());
    }
    let mut read = ForeignMessage::new(message(&Value::Object(fields)).ok_or(())?);
    let made = data.get("response_metadata");
    let made_by = |name: &str| made.and_then(|made| made.get(name)).and_then(Value::as_str).map(String::from);
    read.model = made_by("model_name").or_else(|| made_by("model"));
    read.finish_reason = made_by("finish_reason").or_else(|| made_by("stop_reason"));
    read.usage = data.get("usage_metadata").and_then(usage);
    Ok(Some(read))
}

fn usage(value: &Value) -> Option<Usage> {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let mut usage = Usage::new(number(value, "input_tokens")?, number(value, "output_tokens")?);
    usage.cached_input_tokens = value.get("input_token_details").and_then(|details| number(details, "cache_read"));
    Some(usage)
}

/// Returns the calls in the form of chat completions, or `None` if there are none. The provider's own form is
/// preferred, because it has the arguments byte for byte.
fn calls(data: &Value) -> Result<Option<Value>, ()> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).filter(|list| !list.is_empty()).cloned();
    if let Some(calls) = list(data.get("additional_kwargs").and_then(|more| more.get("tool_calls"))) {
        return Ok(Some(Value::Array(calls)));
    }
    let valid = list(data.get("tool_calls")).unwrap_or_default();
    let invalid = list(data.get("invalid_tool_calls")).unwrap_or_default();
    let calls: Vec<_> = valid.iter().chain(&invalid).map(call).collect::<Result<_, _>>()?;
    Ok((!calls.is_empty()).then_some(Value::Array(calls)))
}

fn call(call: &Value) -> Result<Value, ()> {
    let arguments = match call.get("args") {
        // Invalid calls have the text of the model.
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(args) => text(args).ok_or(())?,
    };
    let function = json!({ "name": call.get("name"), "arguments": arguments });
    Ok(json!({ "id": call.get("id"), "type": "function", "function": function }))
}

fn content(value: &Value, left_out: &mut u64) -> Result<Value, ()> {
    let parts = match value {
        Value::Null => return Ok(json!("")),
        Value::String(_) => return Ok(value.clone()),
        Value::Array(parts) => parts,
        _ => return Err(()),
    };
    let mut kept = Vec::new();
    for part in parts {
        if let Some(text) = part.as_str() {
            kept.push(json!({ "type": "text", "text": text }));
            continue;
        }
        match part.get("type").and_then(Value::as_str) {
            Some("text") => kept.push(json!({ "type": "text", "text": part.get("text").ok_or(())? })),
            Some("image_url" | "input_audio" | "file") => kept.push(part.clone()),
            Some("image") => kept.extend(image(part).or_else(|| {
                *left_out += 1;
                None
            })),
            // The calls are a field of their own.
            Some("tool_use" | "tool_call" | "function_call") => {}
            _ => *left_out += 1,
        }
    }
    Ok(if kept.is_empty() { json!("") } else { Value::Array(kept) })
}

/// Returns the part for an image block of LangChain or Anthropic.
fn image(part: &Value) -> Option<Value> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(String::from);
    let source = part.get("source").filter(|source| source.is_object()).unwrap_or(part);
    let kind = text(source, "mime_type").or_else(|| text(source, "media_type"));
    let data = text(source, "base64").or_else(|| text(source, "data"));
    let url = match (text(source, "url"), kind, data) {
        (Some(url), ..) => url,
        (None, Some(kind), Some(data)) => format!("data:{kind};base64,{data}"),
        _ => return None,
    };
    Some(json!({ "type": "image_url", "image_url": { "url": url } }))
}

//! The messages of LangChain, and dumps of its `RedisChatMessageHistory`.

use std::io::BufRead;

use serde_json::{Map, Value, json};
use tower_chat_history_core::Usage;

use super::{
    conversation::{ForeignConversation, ForeignMessage, json_text, message_of},
    records::{Records, are_objects},
};
use crate::transfer::import::{ForeignError, Problem};

/// The default beginning of LangChain's keys.
const KEYS: &str = "message_store:";

/// Reads dumps of the lists that LangChain's `RedisChatMessageHistory` keeps: one object in each line, with the `key`
/// of a list and its `values`, in the order of Redis (newest first).
///
/// This shell command writes such a dump:
///
/// ```sh
/// redis-cli --scan --pattern 'message_store:*' | while read -r key; do
///   printf '{"key":"%s","values":%s}\n' "$key" "$(redis-cli --json LRANGE "$key" 0 -1)"
/// done
/// ```
///
/// The name of a conversation is the key without `message_store:`. A message without a counterpart of a part is kept
/// without this part.
pub fn langchain_redis<R: BufRead>(input: R) -> impl Iterator<Item = Result<ForeignConversation, ForeignError>> {
    LangChainRedis(Records::new(input))
}

#[derive(Debug)]
struct LangChainRedis<R>(Records<R>);

impl<R: BufRead> Iterator for LangChainRedis<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(are_objects)?;
        Some(record.and_then(|(number, value)| conversation(number, &value)))
    }
}

fn conversation(number: u64, value: &Value) -> Result<ForeignConversation, ForeignError> {
    let key = value.get("key").and_then(Value::as_str);
    let values = value.get("values").and_then(Value::as_array);
    let (Some(key), Some(values)) = (key, values) else {
        let problem = Problem::Form("expected a text `key` and a list `values`");
        return Err(ForeignError::conversation(number, None, problem));
    };

    let mut conversation = ForeignConversation::new(key.strip_prefix(KEYS).unwrap_or(key).to_owned(), number);
    for (index, value) in values.iter().rev().enumerate() {
        match element(value, &mut conversation.left_out) {
            Ok(message) => conversation.messages.extend(message),
            Err(()) => {
                return Err(ForeignError::conversation(number, Some(key.to_owned()), Problem::Message(index)));
            }
        }
    }
    Ok(conversation)
}

/// Reads an element of a list, which is the JSON of a message.
fn element(value: &Value, left_out: &mut u64) -> Result<Option<ForeignMessage>, ()> {
    match value {
        Value::String(json) => read(&serde_json::from_str(json).map_err(drop)?, left_out),
        value => read(value, left_out),
    }
}

/// Reads a message, as `message_to_dict` or `model_dump` returns it. Returns `Ok(None)` for a mark that removes
/// messages, and `Err` if it is not a message.
pub(super) fn read(value: &Value, left_out: &mut u64) -> Result<Option<ForeignMessage>, ()> {
    let kind = value.get("type").and_then(Value::as_str).ok_or(())?;
    let data = value.get("data").filter(|data| data.is_object()).unwrap_or(value);
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

    let mut fields = Map::new();
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

    let mut read = ForeignMessage::new(message_of(&Value::Object(fields)).ok_or(())?);
    let call = data.get("response_metadata").unwrap_or(&Value::Null);
    read.model = text(call, "model_name").or_else(|| text(call, "model"));
    read.finish_reason = text(call, "finish_reason").or_else(|| text(call, "stop_reason"));
    read.usage = data.get("usage_metadata").and_then(usage);
    Ok(Some(read))
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(String::from)
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

fn list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value?.as_array().filter(|list| !list.is_empty())
}

fn usage(value: &Value) -> Option<Usage> {
    let mut usage = Usage::new(number(value, "input_tokens")?, number(value, "output_tokens")?);
    usage.cached_input_tokens = value.get("input_token_details").and_then(|details| number(details, "cache_read"));
    Some(usage)
}

/// Returns the calls in the form of chat completions, or `None` if there are none. The provider's own form is
/// preferred, because it has the arguments byte for byte.
fn calls(data: &Value) -> Result<Option<Value>, ()> {
    if let Some(calls) = list(data.get("additional_kwargs").and_then(|more| more.get("tool_calls"))) {
        return Ok(Some(Value::Array(calls.clone())));
    }

    let valid = list(data.get("tool_calls")).into_iter().flatten();
    let invalid = list(data.get("invalid_tool_calls")).into_iter().flatten();
    let calls: Vec<_> = valid.chain(invalid).map(call).collect::<Result<_, _>>()?;
    Ok((!calls.is_empty()).then_some(Value::Array(calls)))
}

fn call(call: &Value) -> Result<Value, ()> {
    let arguments = match call.get("args") {
        // Invalid calls have the text of the model.
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(args) => json_text(args).ok_or(())?,
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
            Some("image") => match image(part) {
                Some(part) => kept.push(part),
                None => *left_out += 1,
            },
            // The calls are a field of their own.
            Some("tool_use" | "tool_call" | "function_call") => {}
            _ => *left_out += 1,
        }
    }
    Ok(if kept.is_empty() { json!("") } else { Value::Array(kept) })
}

/// Returns the part for an image block of LangChain or Anthropic.
fn image(part: &Value) -> Option<Value> {
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

//! The rules of the fields of items.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    item::{CallType, Item},
    refusal::{Reason, Refusal},
};

/// The largest number of characters of the id that connects a call and its output.
const MAX_CALL_ID: usize = 64;

/// The types of the parts of a model's message.
const OF_MODEL: [&str; 2] = ["output_text", "refusal"];

/// The types of all parts.
const PARTS: [&str; 9] = [
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
];

/// Checks the fields of an item, whose type is known.
pub(super) fn check(position: usize, kind: &str, role: &str, json: &Value) -> Result<(), Refusal> {
    check_id(position, kind, role, json)?;
    check_call_id(position, &json["call_id"])?;
    let text = |field: &str| check_text(position, field, &json[field]);
    match kind {
        "message" => check_content(position, role, &json["content"], json.get("content").is_some()),
        "function_call" => {
            text("name")?;
            if !json["name"].as_str().is_some_and(is_identifier) {
                return Err(Refusal::pattern(position, "name"));
            }
            text("arguments")
        }
        "custom_tool_call" => text("name").and_then(|()| text("input")),
        _ if has_output(kind) && json["output"].is_null() => Err(Refusal::missing(position, "output")),
        _ => Ok(()),
    }
}

/// Returns `true` for outputs whose field `output` is required.
fn has_output(kind: &str) -> bool {
    use CallType::{Computer, Custom, Function, LocalShell, Shell};
    [Function, Custom, LocalShell, Shell, Computer].into_iter().any(|call| call.output_name() == kind)
}

/// Checks the id of the item itself. Ids of some types have a prefix.
fn check_id(position: usize, kind: &str, role: &str, json: &Value) -> Result<(), Refusal> {
    let Some(id) = json["id"].as_str() else { return Ok(()) };
    let prefix = match kind {
        "message" if role == "assistant" => "msg",
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        _ => "",
    };
    let rest = id.strip_prefix(prefix);
    if !id.is_empty() && rest.is_none() {
        return Err(Refusal::prefix(position, id, prefix));
    }
    let is_separated = prefix.is_empty() || rest.is_some_and(|rest| rest.starts_with('_'));
    if is_identifier(id) && is_separated { Ok(()) } else { Err(Refusal::invalid(position, "id", id)) }
}

fn check_call_id(position: usize, id: &Value) -> Result<(), Refusal> {
    let length = id.as_str().map_or(0, |id| id.chars().count());
    if length > MAX_CALL_ID { Err(Refusal::too_long(position, "call_id", MAX_CALL_ID, length)) } else { Ok(()) }
}

fn check_text(position: usize, field: &str, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => Err(Refusal::missing(position, field)),
        other => Err(Refusal::wrong_type(position, field, "a string", other)),
    }
}

fn check_content(position: usize, role: &str, content: &Value, is_there: bool) -> Result<(), Refusal> {
    let parts = match content {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        Value::Null if !is_there => return Err(Refusal::missing(position, "content")),
        other => return Err(Refusal::wrong_type(position, "content", "one of an array of objects or string", other)),
    };
    let allowed = if role == "assistant" { OF_MODEL.as_slice() } else { PARTS.as_slice() };
    for (at, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        if !allowed.contains(&kind) {
            let field = if role == "assistant" { "" } else { ".type" };
            return Err(Refusal::part(position, &format!("content[{at}]{field}"), kind, allowed));
        }
    }
    Ok(())
}

/// Checks that no two items have the same id.
pub(super) fn check_unique(items: &[Item]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    let mut ids = items.iter().enumerate().filter_map(|(position, item)| Some((position, item, item.id.as_deref()?)));
    let repeated = ids.find(|(_, item, id)| item.kind != "item_reference" && !seen.insert(*id));
    let Some((position, item, _)) = repeated else { return Ok(()) };
    Err(Refusal::of_item(Reason::RepeatedItem { position }, item, ""))
}

/// Returns `true` for a text that matches `^[a-zA-Z0-9_-]+$`.
fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

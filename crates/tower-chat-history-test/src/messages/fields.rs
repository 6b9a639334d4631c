//! Rules of the fields of messages and blocks.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Reason,
    request::{Placed, Said, Speaker},
};

/// The types of blocks that the API knows, besides the results of server tools.
pub(super) const TYPES: [&str; 13] = [
    "compaction",
    "connector_text",
    "container_upload",
    "document",
    "image",
    "mcp_tool_use",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
];

/// The media types of images.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The media types of documents as data.
const DOCUMENTS: [&str; 1] = ["application/pdf"];

/// The largest number of characters in the name of a called tool.
const MAX_NAME: usize = 200;

/// Checks the names of a message's fields. System messages have settings, which are not checked.
pub(super) fn check_message(message: usize, said: &Said) -> Result<(), Reason> {
    match &said.extra {
        Some(name) if said.speaker != Speaker::System => {
            Err(Reason::ExtraField { message, block: None, name: name.clone() })
        }
        _ => Ok(()),
    }
}

/// Checks the type of a block and its fields. `made` are the other types that the provider knows. System messages
/// have blocks of their own, which are not checked.
pub(super) fn check_block(speaker: Speaker, placed: Placed<'_>, made: &HashSet<String>) -> Result<(), Reason> {
    let Placed { message, block, json } = placed;
    let missing = |name: &'static str| Reason::BlockField { message, block, name };
    let kind = json["type"].as_str().ok_or_else(|| missing("type"))?;
    let is_known = TYPES.contains(&kind) || kind.ends_with("_tool_result") || made.contains(kind);
    if !is_known && speaker != Speaker::System {
        return Err(Reason::UnknownBlock { message, block, kind: kind.to_owned() });
    }
    let requires = |name: &'static str| if json[name].is_string() { Ok(()) } else { Err(missing(name)) };
    let refused = |name: &'static str| Err(Reason::BlockValue { message, block, name });
    match kind {
        "text" => requires("text"),
        "thinking" => {
            ["thinking", "signature"].into_iter().try_for_each(requires)?;
            only(placed, &["type", "thinking", "signature"])
        }
        "redacted_thinking" => {
            requires("data")?;
            only(placed, &["type", "data"])
        }
        "tool_use" => {
            ["id", "name"].into_iter().try_for_each(requires)?;
            let name = placed.text("name");
            match &json["input"] {
                _ if !is_identifier(placed.text("id")) => refused("tool_use.id"),
                _ if name.chars().count() > MAX_NAME => Err(Reason::LongToolName { message, block }),
                _ if !is_identifier(name) => refused("tool_use.name"),
                Value::Null if json.get("input").is_none() => Err(missing("tool_use.input")),
                Value::Object(_) => Ok(()),
                _ => refused("tool_use.input"),
            }
        }
        "tool_result" => {
            requires("tool_use_id")?;
            if !is_identifier(placed.text("tool_use_id")) {
                return refused("tool_result.tool_use_id");
            }
            let mut inner = json["content"].as_array().into_iter().flatten();
            inner.try_for_each(|json| check_source(Placed { json, ..placed }))
        }
        _ => check_source(placed),
    }
}

/// Checks the source of an image or a document.
fn check_source(placed: Placed<'_>) -> Result<(), Reason> {
    let Placed { message, block, json } = placed;
    let (field, name, allowed) = match placed.kind() {
        "image" => ("image.source", "image.source.base64.media_type", IMAGES.as_slice()),
        "document" => ("document.source", "document.source.base64.media_type", DOCUMENTS.as_slice()),
        _ => return Ok(()),
    };
    let source = &json["source"];
    if !source.is_object() {
        return Err(Reason::BlockField { message, block, name: field });
    }
    let is_allowed = source["media_type"].as_str().is_some_and(|media_type| allowed.contains(&media_type));
    if source["type"] == "base64" && !is_allowed {
        return Err(Reason::BlockValue { message, block, name });
    }
    Ok(())
}

/// Checks that a block has only these fields.
fn only(placed: Placed<'_>, fields: &[&str]) -> Result<(), Reason> {
    let Placed { message, block, json } = placed;
    let mut names = json.as_object().into_iter().flat_map(|fields| fields.keys());
    let extra = names.find(|name| !fields.contains(&name.as_str()));
    extra.map_or(Ok(()), |name| {
        let name = format!("{}.{name}", placed.kind());
        Err(Reason::ExtraField { message, block: Some(block), name })
    })
}

/// Returns `true` for a text that matches `^[a-zA-Z0-9_-]+$`.
fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

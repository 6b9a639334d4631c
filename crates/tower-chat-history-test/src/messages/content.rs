//! Rules of single messages and blocks: their fields, their texts, and the marks for the cache.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Reason,
    refusal::BLOCK_TYPES,
    request::{BlockAt, Mark, Request, RequestMessage, Speaker, blocks},
};

/// The media types of images.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The media types of documents as data.
const DOCUMENTS: [&str; 1] = ["application/pdf"];

/// The largest number of characters in the name of a called tool.
const MAX_NAME: usize = 200;

/// The largest number of marks in a request.
const MAX_MARKS: usize = 4;

/// Checks each message by itself. `made` are the types of blocks that only this provider knows.
pub(super) fn check(request: &Request, made: &HashSet<String>) -> Result<(), Reason> {
    for (position, message) in request.messages.iter().enumerate() {
        check_names(position, message)?;
    }
    for (speaker, block) in request.blocks() {
        check_block(speaker, block, made)?;
    }
    if request.has_empty_system {
        return Err(Reason::EmptySystem);
    }
    for (position, message) in request.messages.iter().enumerate() {
        check_message(position, message)?;
    }
    check_marks(&request.marks, request.is_marked)
}

fn check_block(speaker: Speaker, placed: BlockAt<'_>, made: &HashSet<String>) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
    let of_model = ["thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction"];
    let is_misplaced = match placed.kind() {
        "tool_result" => speaker != Speaker::User,
        kind if of_model.contains(&kind) || kind.ends_with("_tool_result") => speaker != Speaker::Assistant,
        _ => false,
    };

    if is_misplaced {
        return Err(Reason::WrongRole { message, block });
    }

    check_fields(speaker, placed, made)?;
    if placed.kind() == "tool_result" {
        let content = blocks(&json["content"]);
        content.iter().try_for_each(|inner| empty_text(message, block, inner))?;
        if content.is_empty() && json["is_error"] == true {
            return Err(Reason::EmptyError { message, block });
        }
    }

    empty_text(message, block, json)
}

fn empty_text(message: usize, block: usize, json: &Value) -> Result<(), Reason> {
    if json["type"] != "text" || json["text"] != "" {
        return Ok(());
    }
    let is_marked = !json["cache_control"].is_null();
    Err(if is_marked { Reason::MarkedEmptyText { message, block } } else { Reason::EmptyText { message } })
}

fn check_message(message: usize, sent: &RequestMessage) -> Result<(), Reason> {
    if sent.blocks.is_empty() && !(sent.speaker == Speaker::System && sent.extra.is_some()) {
        return Err(Reason::EmptyMessage { message });
    }

    let texts: Vec<&Value> = sent.blocks.iter().filter(|block| block["type"] == "text").collect();
    if !texts.is_empty() && texts.iter().all(|block| is_blank(block)) {
        return Err(Reason::BlankText { message });
    }

    let ends_with = sent.blocks.last().map(|block| &block["type"]);
    let is_thinking = ends_with.is_some_and(|kind| kind == "thinking" || kind == "redacted_thinking");
    if is_thinking { Err(Reason::LastThinking { message }) } else { Ok(()) }
}

/// Returns `true` for a text with nothing but white space.
fn is_blank(text: &Value) -> bool {
    text["text"].as_str().unwrap_or_default().trim().is_empty()
}

/// Checks the names of a message's fields. System messages have settings, which are not checked.
fn check_names(message: usize, sent: &RequestMessage) -> Result<(), Reason> {
    match &sent.extra {
        Some(name) if sent.speaker != Speaker::System => {
            Err(Reason::ExtraField { message, block: None, name: name.clone() })
        }
        _ => Ok(()),
    }
}

/// Checks the type of a block and its fields. `made` are the other types that the provider knows. System messages
/// have blocks of their own, which are not checked.
fn check_fields(speaker: Speaker, placed: BlockAt<'_>, made: &HashSet<String>) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
    let kind = json["type"].as_str().ok_or(Reason::BlockField { message, block, name: "type" })?;
    let is_known = BLOCK_TYPES.contains(&kind) || kind.ends_with("_tool_result") || made.contains(kind);
    if !is_known && speaker != Speaker::System {
        return Err(Reason::UnknownBlock { message, block, kind: kind.to_owned() });
    }

    match kind {
        "text" => requires(placed, "text"),
        "thinking" => {
            requires(placed, "thinking")?;
            requires(placed, "signature")?;
            only(placed, &["type", "thinking", "signature"])
        }
        "redacted_thinking" => {
            requires(placed, "data")?;
            only(placed, &["type", "data"])
        }
        "tool_use" => check_call(placed),
        "tool_result" => {
            requires(placed, "tool_use_id")?;
            if !is_identifier(placed.text("tool_use_id")) {
                return Err(Reason::BlockValue { message, block, name: "tool_result.tool_use_id" });
            }
            let mut inner = json["content"].as_array().into_iter().flatten();
            inner.try_for_each(|json| check_source(BlockAt { json, ..placed }))
        }
        _ => check_source(placed),
    }
}

/// Checks that a block has a text in this field.
fn requires(placed: BlockAt<'_>, name: &'static str) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
    if json[name].is_string() { Ok(()) } else { Err(Reason::BlockField { message, block, name }) }
}

fn check_call(placed: BlockAt<'_>) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
    requires(placed, "id")?;
    requires(placed, "name")?;
    if !is_identifier(placed.text("id")) {
        return Err(Reason::BlockValue { message, block, name: "tool_use.id" });
    }

    let name = placed.text("name");
    if name.chars().count() > MAX_NAME {
        return Err(Reason::LongToolName { message, block });
    }
    if !is_identifier(name) {
        return Err(Reason::BlockValue { message, block, name: "tool_use.name" });
    }

    match json.get("input") {
        None => Err(Reason::BlockField { message, block, name: "tool_use.input" }),
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(Reason::BlockValue { message, block, name: "tool_use.input" }),
    }
}

/// Checks the source of an image or a document.
fn check_source(placed: BlockAt<'_>) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
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
fn only(placed: BlockAt<'_>, fields: &[&str]) -> Result<(), Reason> {
    let BlockAt { message, block, json } = placed;
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

/// Checks the number of marks and their order. `automatic` is the mark of the request itself.
fn check_marks(marks: &[Mark], automatic: bool) -> Result<(), Reason> {
    let found = marks.len() + usize::from(automatic);
    if found > MAX_MARKS {
        return Err(Reason::CacheMarks { found });
    }
    let late = marks.iter().skip_while(|mark| mark.is_long).find(|mark| mark.is_long);
    late.map_or(Ok(()), |mark| Err(Reason::CacheOrder { place: mark.place.clone() }))
}

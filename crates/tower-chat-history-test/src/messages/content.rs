//! Rules of single messages and blocks.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Reason, fields, marks,
    request::{Placed, Request, Said, Speaker, blocks},
};

/// Checks each message by itself. `made` are the types of blocks that only this provider knows.
pub(super) fn check(request: &Request, made: &HashSet<String>) -> Result<(), Reason> {
    for (position, message) in request.messages.iter().enumerate() {
        fields::check_message(position, message)?;
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
    marks::check(&request.marks, request.is_marked)
}

fn check_block(speaker: Speaker, placed: Placed<'_>, made: &HashSet<String>) -> Result<(), Reason> {
    let Placed { message, block, json } = placed;
    let of_model = ["thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction"];
    let is_misplaced = match placed.kind() {
        "tool_result" => speaker != Speaker::User,
        kind if of_model.contains(&kind) || kind.ends_with("_tool_result") => speaker != Speaker::Assistant,
        _ => false,
    };
    if is_misplaced {
        return Err(Reason::WrongRole { message, block });
    }
    fields::check_block(speaker, placed, made)?;
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

fn check_message(message: usize, said: &Said) -> Result<(), Reason> {
    if said.blocks.is_empty() && !(said.speaker == Speaker::System && said.extra.is_some()) {
        return Err(Reason::EmptyMessage { message });
    }
    let mut texts = said.blocks.iter().filter(|block| block["type"] == "text").peekable();
    let is_blank = |block: &Value| block["text"].as_str().unwrap_or_default().trim().is_empty();
    if texts.peek().is_some() && texts.all(is_blank) {
        return Err(Reason::BlankText { message });
    }
    let ends_with = said.blocks.last().map(|block| &block["type"]);
    let is_thinking = ends_with.is_some_and(|kind| kind == "thinking" || kind == "redacted_thinking");
    if is_thinking { Err(Reason::LastThinking { message }) } else { Ok(()) }
}

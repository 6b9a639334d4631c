//! Rules of single messages and blocks.

use serde_json::Value;

use super::{
    Reason,
    request::{Placed, Request, Said, Speaker, blocks},
};

/// The largest number of marks for the cache in a request.
const MAX_MARKS: usize = 4;

/// Checks each message by itself.
pub(super) fn check(request: &Request) -> Result<(), Reason> {
    for (speaker, block) in request.blocks() {
        check_block(speaker, block)?;
    }
    for (position, message) in request.messages.iter().enumerate() {
        check_message(position, message)?;
    }
    if request.marks > MAX_MARKS { Err(Reason::CacheMarks { found: request.marks }) } else { Ok(()) }
}

fn check_block(speaker: Speaker, placed: Placed<'_>) -> Result<(), Reason> {
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
    let requires = |name: &'static str| {
        let is_there = json[name].is_string();
        if is_there { Ok(()) } else { Err(Reason::BlockField { message, block, name }) }
    };
    match placed.kind() {
        "text" => requires("text")?,
        "thinking" => ["thinking", "signature"].into_iter().try_for_each(requires)?,
        "redacted_thinking" => requires("data")?,
        "tool_use" => ["id", "name"].into_iter().try_for_each(requires)?,
        "tool_result" => {
            requires("tool_use_id")?;
            let content = blocks(&json["content"]);
            if let Some(refused) = content.iter().map(|inner| empty_text(message, block, inner)).find(Result::is_err) {
                return refused;
            }
            if content.is_empty() && json["is_error"] == true {
                return Err(Reason::EmptyError { message, block });
            }
        }
        _ => {}
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
    if said.blocks.is_empty() && !(said.speaker == Speaker::System && said.has_settings) {
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

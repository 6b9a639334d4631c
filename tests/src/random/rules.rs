//! The rules that a strict provider checks in a prompt, written from the description of the chat format
//! alone.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use tower_chat_history::Message;

use super::outcome::{Checked, Violation};

/// The roles that a message of a prompt may have.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Checks a whole prompt.
pub(super) fn check_prompt(prompt: &[Message]) -> Checked {
    let fail = |at: usize, what: &str| {
        let from = at.saturating_sub(3);
        let shown: Vec<String> = prompt.iter().skip(from).take(5).map(shorten).collect();
        let seen = format!("message {at}: {what}; from message {from} on: {}", shown.join(", "));
        Err(Violation::new("prompts obey the chat rules", seen))
    };
    if prompt.is_empty() {
        return fail(0, "the prompt is empty");
    }
    let mut open: Vec<String> = Vec::new();
    for (at, message) in prompt.iter().enumerate() {
        // If a value is too deep to be read, it is replaced by a text. The checks need the first level only.
        let fields = match fields(message.json()) {
            Ok(fields) => fields,
            Err(why) => return fail(at, &why),
        };
        let Some(role) = fields.get("role").and_then(Value::as_str) else { return fail(at, "no role") };
        if !ROLES.contains(&role) {
            return fail(at, "an unknown role");
        }
        if role == "tool" {
            match fields.get("tool_call_id").and_then(Value::as_str) {
                None | Some("") => return fail(at, "a result without an id"),
                Some(id) => match open.iter().position(|one| one == id) {
                    Some(place) => drop(open.swap_remove(place)),
                    None => return fail(at, "a result that answers none of the calls before it"),
                },
            }
            continue;
        }
        if !open.is_empty() {
            return fail(at, "the calls before it have no result");
        }
        if role != "assistant" {
            continue;
        }
        match calls(&fields) {
            Ok(ids) => open = ids,
            Err(what) => return fail(at, what),
        }
        if open.is_empty() && !says_something(&fields) {
            return fail(at, "a blank reply");
        }
    }
    if open.is_empty() { Ok(()) } else { fail(prompt.len(), "the last calls have no result") }
}

fn fields(json: &str) -> Result<Map<String, Value>, String> {
    type Raw<'a> = std::collections::HashMap<String, &'a serde_json::value::RawValue>;
    let raw: Raw<'_> = serde_json::from_str(json).map_err(|error| format!("not a JSON object: {error}"))?;
    let read = |value: &serde_json::value::RawValue| {
        serde_json::from_str(value.get()).unwrap_or_else(|_| Value::from("too deep"))
    };
    Ok(raw.into_iter().map(|(name, value)| (name, read(value))).collect())
}

/// Returns the ids of an assistant message's calls.
fn calls(fields: &Map<String, Value>) -> Result<Vec<String>, &'static str> {
    let list = match fields.get("tool_calls") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.is_empty() => return Err("an empty list of calls"),
        Some(Value::Array(list)) => list,
        Some(_) => return Err("tool_calls that is not a list"),
    };
    let id = |call: &Value| call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
    let named = |call: &Value| {
        ["function", "custom"]
            .iter()
            .any(|kind| call.get(kind).is_some_and(|it| it.get("name").is_some_and(Value::is_string)))
    };
    if !list.iter().all(named) {
        return Err("a call that names no tool");
    }
    list.iter().map(|call| id(call).ok_or("a call without an id")).collect()
}

fn says_something(fields: &Map<String, Value>) -> bool {
    let is_there = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        Some(_) => true,
    };
    ["content", "refusal", "audio", "function_call"].iter().any(|name| is_there(name))
}

/// Returns the calls that are open at the end of a log, as the documentation of the view defines them: only
/// the last assistant message has open calls, results answer them, and any other message that is not blank
/// closes them. Returns `None` if that message has calls without an id, which cannot be answered: the
/// documentation does not define what closes these.
pub(super) fn open_calls<'a>(log: impl IntoIterator<Item = &'a Message>) -> Option<Vec<String>> {
    let mut open = Some(Vec::new());
    for message in log {
        let Ok(fields) = fields(message.json()) else { continue };
        match fields.get("role").and_then(Value::as_str) {
            Some("tool") => {
                let id = fields.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
                if let Some(open) = &mut open
                    && let Some(place) = open.iter().position(|one: &String| one == id)
                {
                    open.remove(place);
                }
            }
            Some("assistant") => match calls(&fields) {
                Ok(ids) if ids.is_empty() && !says_something(&fields) => {}
                Ok(ids) => open = Some(ids),
                Err("an empty list of calls") if says_something(&fields) => open = Some(Vec::new()),
                Err("an empty list of calls") => {}
                Err(_) => open = None,
            },
            _ => open = Some(Vec::new()),
        }
    }
    open
}

/// Returns the start of a message, to be shown.
pub(super) fn shorten(message: &Message) -> String {
    let json = message.json();
    let end = json.char_indices().nth(160).map_or(json.len(), |(at, _)| at);
    json[..end].to_owned()
}

/// Returns the marks `#n#` in a text. Each fact of a conversation has its own mark.
pub(super) fn marks(text: &str) -> BTreeSet<u64> {
    text.split('#').skip(1).step_by(2).filter_map(|mark| mark.parse().ok()).collect()
}

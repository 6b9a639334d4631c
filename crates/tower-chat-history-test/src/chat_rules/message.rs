//! The rules of single messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Message, Role};

use super::RuleViolation;

/// The largest number of characters in the id of a call at OpenAI.
const MAX_ID: usize = 64;

/// Checks the role, the content and the calls of a message.
pub(super) fn check(position: usize, message: &Message) -> Result<(), RuleViolation> {
    if let Role::Other(role) = message.role() {
        return Err(RuleViolation::UnknownRole { position, role: role.clone().into() });
    }
    let is_reply = *message.role() == Role::Assistant;
    if is_reply {
        check_calls(position, message)?;
    }
    match content(message) {
        Some(content) if is_empty_list(content) => Err(RuleViolation::EmptyContent { position }),
        None if !is_reply => Err(RuleViolation::MissingContent { position }),
        None if message.is_blank_reply() => Err(RuleViolation::BlankReply { position }),
        _ => Ok(()),
    }
}

/// Returns the JSON of the content, unless it is null.
fn content(message: &Message) -> Option<&str> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_str(message.json()).ok()?;
    fields.content.map(RawValue::get)
}

fn is_empty_list(json: &str) -> bool {
    let elements = json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    elements.is_some_and(|elements| elements.trim().is_empty())
}

/// Checks the JSON itself, because the message's index omits entries that are not calls.
fn check_calls(position: usize, message: &Message) -> Result<(), RuleViolation> {
    #[derive(Deserialize)]
    struct Calls<'a> {
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let Ok(Calls { tool_calls: Some(calls) }) = serde_json::from_str(message.json()) else { return Ok(()) };
    let calls: Vec<&RawValue> =
        serde_json::from_str(calls.get()).map_err(|_| RuleViolation::CallsNotArray { position })?;
    if calls.is_empty() {
        return Err(RuleViolation::EmptyToolCalls { position });
    }
    let has_id = |call: &&RawValue| {
        serde_json::from_str::<Call<'_>>(call.get())
            .is_ok_and(|call| call.id.get().starts_with('"') && call.id.get() != r#""""#)
    };
    let missing = calls.iter().position(|call| !has_id(call));
    missing.map_or(Ok(()), |call| Err(RuleViolation::MissingCallId { position, call }))
}

/// Checks the length of the ids of calls.
pub(super) fn check_ids(position: usize, message: &Message) -> Result<(), RuleViolation> {
    let lengths = message.tool_calls().iter().map(|call| call.id().chars().count());
    match lengths.enumerate().find(|(_, length)| *length > MAX_ID) {
        Some((call, length)) => Err(RuleViolation::LongCallId { position, call, length }),
        None => Ok(()),
    }
}

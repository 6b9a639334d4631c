//! The rules that providers check prompts against.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Message, Role, ToolCall};

/// The largest number of characters in the id of a call at OpenAI.
const MAX_ID: usize = 64;

/// Checks a prompt against the rules of the chat format, as the strictest providers do.
///
/// | refused, as of November 2026 | source |
/// |---|---|
/// | a prompt without messages | reference of chat completions |
/// | a tool result that answers no call of the last assistant message before it, or is not directly after it | reference of chat completions |
/// | a call without a result before the next other message; parallel calls may be answered in any order | reference of chat completions |
/// | `tool_calls` that are empty, or not a list of objects with an id; ids that are empty or not text, also in results | reference of chat completions |
/// | an assistant message whose content is null or missing, without calls, a refusal or audio | openai/openai-cookbook#503 |
/// | another message whose content is null or missing | langchain-ai/langchainjs#4153, run-llama/llama_index#17555 |
/// | a content that is an empty list | reference of chat completions |
/// | an unknown role | reference of chat completions |
///
/// An empty text is a content, also that of an assistant message. Ids may be used again by later messages. OpenAI has
/// more rules for ids, which [`ChatProvider::OpenAi`](crate::ChatProvider::OpenAi) checks.
///
/// ```
/// use tower_chat_history_core::Message;
/// use tower_chat_history_test::{RuleViolation, check_chat_rules};
///
/// assert_eq!(check_chat_rules(&[Message::user("Hi!")]), Ok(()));
/// let orphan = [Message::user("Hi!"), Message::tool("call_1", "sunny")];
/// assert_eq!(check_chat_rules(&orphan), Err(RuleViolation::OrphanResult { position: 1, id: "call_1".into() }));
/// ```
///
/// # Errors
///
/// Returns the first violation, from the beginning of the prompt.
pub fn check_chat_rules(messages: &[Message]) -> Result<(), RuleViolation> {
    if messages.is_empty() {
        return Err(RuleViolation::Empty);
    }

    // The position of the last message that is not a tool result, and the ids of its calls without a result.
    let mut calling = 0;
    let mut open: Vec<&str> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        if message.is_tool_result() {
            let id = message.tool_call_id().unwrap_or_default();
            if message.tool_call_id().is_none_or(str::is_empty) {
                return Err(RuleViolation::MissingResultId { position });
            }
            let Some(call) = open.iter().position(|call| *call == id) else {
                return Err(RuleViolation::OrphanResult { position, id: id.into() });
            };
            check_message(position, message)?;
            open.remove(call);
            continue;
        }

        unanswered(calling, &open)?;
        check_message(position, message)?;
        calling = position;
        open.extend(message.tool_calls().iter().map(ToolCall::id));
    }
    unanswered(calling, &open)
}

/// Checks the rules that only OpenAI has: ids are short, and no two calls of a message have the same. The messages
/// obey the other rules.
pub(crate) fn check_ids(messages: &[Message]) -> Result<(), RuleViolation> {
    // The ids of the results after the last other message, with their positions.
    let mut answered: Vec<(&str, usize)> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        let Some(id) = message.tool_call_id().filter(|_| message.is_tool_result()) else {
            check_message_ids(position, message)?;
            answered.clear();
            continue;
        };
        if let Some((_, first)) = answered.iter().find(|(answered, _)| *answered == id) {
            return Err(RuleViolation::RepeatedResult { position, first: *first, id: id.into() });
        }
        answered.push((id, position));
    }
    Ok(())
}

fn unanswered(position: usize, open: &[&str]) -> Result<(), RuleViolation> {
    if open.is_empty() {
        return Ok(());
    }
    Err(RuleViolation::UnansweredCalls { position, ids: open.iter().map(|id| (*id).into()).collect() })
}

/// Checks the role, the content and the calls of a message.
fn check_message(position: usize, message: &Message) -> Result<(), RuleViolation> {
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
        None if message.is_blank() => Err(RuleViolation::BlankReply { position }),
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

    for (call, json) in calls.into_iter().enumerate() {
        let id = serde_json::from_str::<Call<'_>>(json.get()).map_or("", |call| call.id.get());
        if !id.starts_with('"') || id == r#""""# {
            return Err(RuleViolation::MissingCallId { position, call });
        }
    }
    Ok(())
}

/// Checks the length of the ids of calls.
fn check_message_ids(position: usize, message: &Message) -> Result<(), RuleViolation> {
    let lengths = message.tool_calls().iter().map(|call| call.id().chars().count());
    match lengths.enumerate().find(|(_, length)| *length > MAX_ID) {
        Some((call, length)) => Err(RuleViolation::LongCallId { position, call, length }),
        None => Ok(()),
    }
}

/// A violation of the chat rules. Positions are indexes of messages, counted from 0. The texts of these errors are
/// OpenAI's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleViolation {
    /// The prompt has no message.
    #[error(
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )]
    Empty,
    /// The last assistant message before a tool result does not have its call, or an earlier result has answered the
    /// call.
    #[error("Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message.")]
    OrphanResult {
        /// The position of the result.
        position: usize,
        /// The id of the call that it names.
        id: String,
    },
    /// Two calls of an assistant message have the same id, and each has a result.
    #[error(
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{first}] and messages[{position}]."
    )]
    RepeatedResult {
        /// The position of the second result.
        position: usize,
        /// The position of the first result.
        first: usize,
        /// The id of the call.
        id: String,
    },
    /// Calls are not answered directly after their message.
    #[error(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    )]
    UnansweredCalls {
        /// The position of the assistant message.
        position: usize,
        /// The ids of the calls without a result.
        ids: Vec<String>,
    },
    /// An assistant message has an empty list of calls.
    #[error(
        "Invalid 'messages[{position}].tool_calls': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyToolCalls {
        /// The position of the message.
        position: usize,
    },
    /// The calls of an assistant message are not an array.
    #[error("Invalid type for 'messages[{position}].tool_calls': expected an array of objects.")]
    CallsNotArray {
        /// The position of the message.
        position: usize,
    },
    /// A call is not an object, or has no id, or an id that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_calls[{call}].id'.")]
    MissingCallId {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
    },
    /// A tool result has no call id, or one that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_call_id'.")]
    MissingResultId {
        /// The position of the result.
        position: usize,
    },
    /// The id of a call has more than 64 characters.
    #[error(
        "Invalid 'messages[{position}].tool_calls[{call}].id': string too long. Expected a string with maximum length \
         64, but got a string with length {length} instead."
    )]
    LongCallId {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
        /// The number of characters.
        length: usize,
    },
    /// An assistant message has no content, call, refusal or audio.
    #[error("Invalid value for 'content': expected a string, got null.")]
    BlankReply {
        /// The position of the message.
        position: usize,
    },
    /// A message of another role has no content.
    #[error("Invalid value for 'content': expected a string, got null.")]
    MissingContent {
        /// The position of the message.
        position: usize,
    },
    /// The content of a message is an empty list.
    #[error(
        "Invalid 'messages[{position}].content': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyContent {
        /// The position of the message.
        position: usize,
    },
    /// A message has an unknown role.
    #[error(
        "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
         'developer'."
    )]
    UnknownRole {
        /// The position of the message.
        position: usize,
        /// The role.
        role: String,
    },
}

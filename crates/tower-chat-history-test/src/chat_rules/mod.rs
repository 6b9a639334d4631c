//! The rules that providers check prompts against.

mod message;
#[cfg(test)]
mod tests;
mod violation;

use tower_chat_history_core::Message;

pub use self::violation::RuleViolation;

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
            message::check(position, message)?;
            open.remove(call);
            continue;
        }
        unanswered(calling, &open)?;
        message::check(position, message)?;
        calling = position;
        open.extend(message.tool_calls().iter().map(tower_chat_history_core::ToolCall::id));
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
            message::check_ids(position, message)?;
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
    let ids = || open.iter().map(|id| (*id).into()).collect();
    if open.is_empty() { Ok(()) } else { Err(RuleViolation::UnansweredCalls { position, ids: ids() }) }
}

//! The providers' wording for violations of the chat rules.

use tower_chat_history_core::Message;

use super::{ChatProvider, claude, litellm, openrouter};
use crate::chat_rules::RuleViolation;

/// Returns the provider's wording for a violation. Violations without a known wording have OpenAI's.
pub(super) fn of_rule(provider: ChatProvider, violation: &RuleViolation, messages: &[Message]) -> String {
    let own = match provider {
        ChatProvider::OpenAi => None,
        ChatProvider::DeepSeek => deepseek(violation),
        ChatProvider::Gemini => gemini(violation),
        ChatProvider::OpenRouter => claude(violation, &claude::places(&openrouter::FIELD, messages)),
        ChatProvider::LiteLlm => claude(violation, &claude::places(&litellm::FIELD, messages)),
    };
    own.unwrap_or_else(|| violation.to_string())
}

fn deepseek(violation: &RuleViolation) -> Option<String> {
    match violation {
        RuleViolation::OrphanResult { .. } => {
            Some("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'".into())
        }
        RuleViolation::UnansweredCalls { .. } => Some(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. (insufficient tool messages following tool_calls message)"
                .into(),
        ),
        _ => None,
    }
}

fn gemini(violation: &RuleViolation) -> Option<String> {
    match violation {
        RuleViolation::OrphanResult { .. } => {
            Some("Please ensure that function response turn comes immediately after a function call turn.".into())
        }
        RuleViolation::UnansweredCalls { .. } => Some(
            "Please ensure that the number of function response parts is equal to the number of function call parts \
             of the function call turn."
                .into(),
        ),
        _ => None,
    }
}

fn claude(violation: &RuleViolation, places: &[claude::Place]) -> Option<String> {
    match violation {
        RuleViolation::Empty => Some("messages: at least one message is required".into()),
        RuleViolation::OrphanResult { position, id } => places.get(*position).map(|place| {
            format!(
                "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous message.",
                place.message, place.block
            )
        }),
        RuleViolation::UnansweredCalls { position, ids } => places.get(*position).map(|place| {
            format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                place.message,
                ids.join(", ")
            )
        }),
        _ => None,
    }
}

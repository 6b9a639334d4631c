//! DeepSeek: `reasoning_content` of tool calls.

#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::{Map, json};

#[cfg(any(feature = "openai", feature = "server"))]
use super::prompt::{ProviderFields, Thought};
use super::{
    ChatProvider,
    prompt::{Prompt, ReplyRecords},
    refusal::{ProviderRefusal, RefusalReason},
};
#[cfg(any(feature = "openai", feature = "server"))]
use crate::util::pieces;
use crate::{
    chat_rules::RuleViolation,
    signature::{calls, value},
};

const FIELD: &str = "reasoning_content";

/// Refuses an assistant message with calls that was made in thinking mode and has no reasoning.
pub(super) fn check(prompt: &Prompt<'_>, records: Option<&ReplyRecords>) -> Result<(), ProviderRefusal> {
    if !prompt.thinks {
        return Ok(());
    }
    for (position, message) in prompt.messages.iter().enumerate() {
        let message = value(message);
        let lacks_reasoning = !calls(&message).is_empty() && !message[FIELD].is_string();
        let was_made_with_it = records.is_none_or(|records| records.signatures(&message).is_some());
        if message["role"] == "assistant" && lacks_reasoning && was_made_with_it {
            let wording = "The `reasoning_content` in the thinking mode must be passed back to the API.";
            let reason = RefusalReason::MissingReasoning { position };
            return Err(ProviderRefusal::new(ChatProvider::DeepSeek, reason, wording));
        }
    }
    Ok(())
}

/// Returns the wording for a violation of the chat rules, if it has its own.
pub(super) fn wording(violation: &RuleViolation) -> Option<String> {
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

/// Returns the fields of a reply with these thoughts.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn fields(thoughts: &[Thought], chars: usize) -> ProviderFields {
    let text: String = thoughts.iter().map(Thought::text).collect();
    let mut deltas = Vec::new();
    for piece in pieces(&text, chars) {
        deltas.push(json!({ FIELD: piece }));
    }
    if deltas.is_empty() {
        deltas.push(json!({ FIELD: "" }));
    }
    ProviderFields { fields: Map::from_iter([(FIELD.into(), text.into())]), deltas, ..ProviderFields::default() }
}

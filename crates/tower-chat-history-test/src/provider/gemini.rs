//! Gemini: signatures of calls.

use serde_json::Value;
#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::{Map, json};
use tower_chat_history_core::{Digest, Role};

#[cfg(any(feature = "openai", feature = "server"))]
use super::prompt::ProviderFields;
use super::{
    ChatProvider,
    prompt::Prompt,
    refusal::{ProviderRefusal, RefusalReason},
};
use crate::{
    chat_rules::RuleViolation,
    signature::{call_digest, calls, value},
};

/// Values that Google accepts in place of a signature, for calls that its models did not make.
const ACCEPTED: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// Refuses calls of the current turn whose signature is missing or wrong.
pub(super) fn check(prompt: &Prompt<'_>) -> Result<(), ProviderRefusal> {
    let turn = prompt.messages.iter().rposition(|message| *message.role() == Role::User).unwrap_or_default();
    let contents = contents(prompt);

    for (position, message) in prompt.messages.iter().enumerate().skip(turn) {
        if *message.role() != Role::Assistant {
            continue;
        }

        let message = value(message);
        for (call, json) in calls(&message).iter().enumerate() {
            match signature_in(json) {
                None if call > 0 => {}
                None => {
                    let name = json["function"]["name"].as_str().unwrap_or_default();
                    let wording = missing(name, contents[position]);
                    return Err(refused(RefusalReason::MissingSignature { position }, wording));
                }
                Some(signature) if signature == self::signature(json) || ACCEPTED.contains(&signature) => {}
                Some(_) => {
                    let reason = RefusalReason::InvalidSignature { position, call };
                    return Err(refused(reason, "Corrupted thought signature.".into()));
                }
            }
        }
    }
    Ok(())
}

fn refused(reason: RefusalReason, message: String) -> ProviderRefusal {
    ProviderRefusal::new(ChatProvider::Gemini, reason, message)
}

fn missing(name: &str, content: usize) -> String {
    format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
         correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
         call `default_api:{name}` , position {content}. Please refer to \
         https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    )
}

/// Returns the number of each message's content in Gemini's own format, from 1. System messages are not counted, and
/// the results of parallel calls are one content.
fn contents(prompt: &Prompt<'_>) -> Vec<usize> {
    let mut count = 0;
    let mut in_results = false;
    let mut numbers = Vec::new();
    for message in prompt.messages {
        let is_head = matches!(message.role(), Role::System | Role::Developer);
        let is_next_result = in_results && message.is_tool_result();
        if !is_head && !is_next_result {
            count += 1;
        }
        in_results = message.is_tool_result();
        numbers.push(count);
    }
    numbers
}

fn signature_in(call: &Value) -> Option<&str> {
    call["extra_content"]["google"]["thought_signature"].as_str()
}

fn signature(call: &Value) -> String {
    Digest::of(b"gemini").then(call_digest(call)).to_string()
}

/// Returns the wording for a violation of the chat rules, if it has its own.
pub(super) fn wording(violation: &RuleViolation) -> Option<String> {
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

/// Returns the fields of a reply: its first call has a signature. `message` is the reply without them.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn fields(message: &Value) -> ProviderFields {
    let mut fields = ProviderFields { whole_calls: true, ..ProviderFields::default() };
    if let Some(call) = calls(message).first() {
        let signature = json!({ "google": { "thought_signature": signature(call) } });
        fields.calls.push(Map::from_iter([("extra_content".to_owned(), signature)]));
    }
    fields
}

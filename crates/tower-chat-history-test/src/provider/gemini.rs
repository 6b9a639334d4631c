//! Gemini: signatures of calls.

use serde_json::Value;
use tower_chat_history_core::{Digest, Message, Role};

use super::{
    ChatProvider,
    prompt::Prompt,
    refusal::{ProviderRefusal, Refused},
};
use crate::normal::{call_digest, calls, value};

/// Values that Google accepts in place of a signature, for calls that its models did not make.
const ACCEPTED: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// Refuses calls of the current turn whose signature is missing or wrong.
pub(super) fn check(prompt: &Prompt<'_>) -> Result<(), ProviderRefusal> {
    let refused = |reason, message: String| Err(ProviderRefusal::new(ChatProvider::Gemini, reason, message));
    let is_user = |message: &Message| *message.role() == Role::User;
    let turn = prompt.messages.iter().rposition(is_user).unwrap_or_default();
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
                    return refused(Refused::MissingSignature { position }, wording);
                }
                Some(signature) if signature == self::signature(json) || ACCEPTED.contains(&signature) => {}
                Some(_) => {
                    let reason = Refused::InvalidSignature { position, call };
                    return refused(reason, "Corrupted thought signature.".into());
                }
            }
        }
    }
    Ok(())
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
    let number = |message: &Message| {
        let is_head = matches!(message.role(), Role::System | Role::Developer);
        let is_next_result = in_results && message.is_tool_result();
        if !is_head && !is_next_result {
            count += 1;
        }
        in_results = message.is_tool_result();
        count
    };
    prompt.messages.iter().map(number).collect()
}

/// Returns the field of a call with its signature.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn extra_content(call: &Value) -> Value {
    serde_json::json!({ "google": { "thought_signature": signature(call) } })
}

fn signature_in(call: &Value) -> Option<&str> {
    call["extra_content"]["google"]["thought_signature"].as_str()
}

fn signature(call: &Value) -> String {
    Digest::of(b"gemini").then(call_digest(call)).to_string()
}

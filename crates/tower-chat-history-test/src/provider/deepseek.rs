//! DeepSeek: `reasoning_content` of tool calls.

use super::{
    ChatProvider,
    prompt::Prompt,
    recorded::Recorded,
    refusal::{ProviderRefusal, Refused},
};
use crate::normal::{calls, value};

pub(super) const FIELD: &str = "reasoning_content";

/// Refuses an assistant message with calls that was made in thinking mode and has no reasoning.
pub(super) fn check(prompt: &Prompt<'_>, recorded: Option<&Recorded>) -> Result<(), ProviderRefusal> {
    if !prompt.thinks {
        return Ok(());
    }
    for (position, message) in prompt.messages.iter().enumerate() {
        let message = value(message);
        let thought = || recorded.is_none_or(|recorded| recorded.signatures(&message).is_some());
        if message["role"] == "assistant" && !calls(&message).is_empty() && !message[FIELD].is_string() && thought() {
            let wording = "The `reasoning_content` in the thinking mode must be passed back to the API.";
            let reason = Refused::MissingReasoning { position };
            return Err(ProviderRefusal::new(ChatProvider::DeepSeek, reason, wording));
        }
    }
    Ok(())
}

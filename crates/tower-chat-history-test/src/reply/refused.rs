//! The errors for refused requests.

use serde_json::json;

use super::ApiFailure;
use crate::{
    chat_rules::RuleViolation,
    messages,
    provider::{ChatProvider, ProviderRefusal, Refused},
    responses,
};

impl From<RuleViolation> for ApiFailure {
    /// Returns the error that OpenAI sends, with status 400.
    fn from(violation: RuleViolation) -> Self {
        let failure = Self::new(400, violation.to_string());
        match violation {
            RuleViolation::Empty => failure.param("messages").code("empty_array"),
            RuleViolation::OrphanResult { position, .. } | RuleViolation::RepeatedResult { position, .. } => {
                failure.param(format!("messages.[{position}].tool_call_id"))
            }
            RuleViolation::UnansweredCalls { position, .. } => failure.param(format!("messages.[{position}].role")),
            RuleViolation::EmptyToolCalls { position } => {
                failure.param(format!("messages[{position}].tool_calls")).code("empty_array")
            }
            RuleViolation::CallsNotArray { position } => {
                failure.param(format!("messages[{position}].tool_calls")).code("invalid_type")
            }
            RuleViolation::MissingCallId { position, call } => {
                let param = format!("messages[{position}].tool_calls[{call}].id");
                failure.param(param).code("missing_required_parameter")
            }
            RuleViolation::MissingResultId { position } => {
                failure.param(format!("messages[{position}].tool_call_id")).code("missing_required_parameter")
            }
            RuleViolation::LongCallId { position, call, .. } => {
                let param = format!("messages[{position}].tool_calls[{call}].id");
                failure.param(param).code("string_above_max_length")
            }
            RuleViolation::BlankReply { position } | RuleViolation::MissingContent { position } => {
                failure.param(format!("messages.[{position}].content"))
            }
            RuleViolation::EmptyContent { position } => {
                failure.param(format!("messages[{position}].content")).code("empty_array")
            }
            RuleViolation::UnknownRole { position, .. } => {
                failure.param(format!("messages[{position}].role")).code("invalid_value")
            }
        }
    }
}

impl From<ProviderRefusal> for ApiFailure {
    /// Returns the error that the provider sends, with status 400 and the provider's body.
    fn from(refusal: ProviderRefusal) -> Self {
        let message = refusal.to_string();
        match refusal.provider() {
            ChatProvider::OpenAi => match refusal.reason() {
                Refused::ChatRules(violation) => violation.clone().into(),
                _ => Self::new(400, message),
            },
            ChatProvider::DeepSeek => Self::new(400, message).code("invalid_request_error"),
            ChatProvider::Gemini => {
                let error = json!({ "code": 400, "message": message, "status": "INVALID_ARGUMENT" });
                Self::new(400, message).body(json!([{ "error": error }]))
            }
            ChatProvider::OpenRouter => {
                let message_to_callers = "Provider returned error";
                let metadata = json!({ "raw": anthropic(&message), "provider_name": "Anthropic", "is_byok": false });
                let error = json!({ "message": message_to_callers, "code": 400, "metadata": metadata });
                Self::new(400, message_to_callers).body(json!({ "error": error, "user_id": "user_mock" }))
            }
            ChatProvider::LiteLlm => {
                let message = format!("litellm.BadRequestError: AnthropicException - {}", anthropic(&message));
                let error = json!({ "message": message, "type": null, "param": null, "code": "400" });
                Self::new(400, message).body(json!({ "error": error }))
            }
        }
    }
}

impl From<messages::Refusal> for ApiFailure {
    /// Returns the error that Anthropic's Messages API sends.
    fn from(refusal: messages::Refusal) -> Self {
        Self::new(refusal.status(), refusal.to_string()).kind(refusal.kind()).body(refusal.to_json())
    }
}

impl From<responses::Refusal> for ApiFailure {
    /// Returns the error that OpenAI's Responses API sends.
    fn from(refusal: responses::Refusal) -> Self {
        let failure = Self::new(refusal.status(), refusal.to_string());
        let failure = if let Some(code) = refusal.code() { failure.code(code) } else { failure };
        if let Some(param) = refusal.param() { failure.param(param) } else { failure }
    }
}

/// Returns the body of Anthropic's own error, as text.
fn anthropic(message: &str) -> String {
    let error = json!({ "type": "invalid_request_error", "message": message });
    json!({ "type": "error", "error": error, "request_id": "req_mock" }).to_string()
}

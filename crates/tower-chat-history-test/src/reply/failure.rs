//! Errors as an OpenAI-compatible API sends them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    chat_rules::RuleViolation,
    messages,
    provider::{ChatProvider, ProviderRefusal, RefusalReason},
    responses,
};

/// An error reply of the API: a status and OpenAI's error object.
///
/// ```
/// use std::time::Duration;
///
/// use tower_chat_history_test::{ApiFailure, Reply};
///
/// let busy = Reply::error(ApiFailure::rate_limited(Duration::from_secs(1)));
/// let own = Reply::error(ApiFailure::new(404, "no such model").code("model_not_found"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiFailure {
    status: u16,
    message: String,
    kind: Option<String>,
    // Boxed, so that results with this error stay small.
    param: Option<Box<str>>,
    code: Option<Box<str>>,
    retry_after: Option<Duration>,
    body: Option<Box<Value>>,
}

impl ApiFailure {
    /// Creates an error with this HTTP status and message. Its type is `invalid_request_error` for a status below
    /// 500, and `server_error` otherwise. It has neither code nor param.
    #[must_use]
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
        Self {
            status,
            message: message.into(),
            kind: Some(kind.into()),
            param: None,
            code: None,
            retry_after: None,
            body: None,
        }
    }

    /// Creates an error with status 429 and a `Retry-After` header. OpenAI's clients wait for this time and retry.
    #[must_use]
    pub fn rate_limited(retry_after: Duration) -> Self {
        Self::new(429, "Rate limit reached. Please try again later.")
            .kind("requests")
            .code("rate_limit_exceeded")
            .retry_after(retry_after)
    }

    /// Creates the error with status 429 for an account without credit. Clients do not retry it.
    #[must_use]
    pub fn insufficient_quota() -> Self {
        Self::new(429, "You exceeded your current quota, please check your plan and billing details.")
            .kind("insufficient_quota")
            .code("insufficient_quota")
    }

    /// Creates an error with status 500. OpenAI's clients retry it a few times.
    #[must_use]
    pub fn server_error() -> Self {
        Self::new(500, "The server had an error while processing your request. Sorry about that!")
    }

    /// Creates the error with status 400 for a prompt that is larger than the model's context window.
    #[must_use]
    pub fn context_length_exceeded() -> Self {
        Self::new(400, "This model's maximum context length is exceeded. Please reduce the length of the messages.")
            .param("messages")
            .code("context_length_exceeded")
    }

    /// Sets the error's `type`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Sets the error's `param`. The default is null.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into().into());
        self
    }

    /// Sets the error's `code`. The default is null.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into().into());
        self
    }

    /// Sets the `Retry-After` header, in whole seconds rounded up. The default is none.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Sets the whole body, for a provider whose errors have another shape. The default is OpenAI's error object.
    #[must_use]
    pub fn body(mut self, body: impl Into<Value>) -> Self {
        self.body = Some(Box::new(body.into()));
        self
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the body: OpenAI's error object in its envelope, unless another [`body`](Self::body) is set.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { message, kind, param, code, body, .. } = self;
        if let Some(body) = body {
            return (**body).clone();
        }
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }

    /// Returns the body that replaces the error object, if it is set.
    #[cfg(feature = "server")]
    pub(super) fn own_body(&self) -> Option<&Value> {
        self.body.as_deref()
    }

    /// Returns the value of the `Retry-After` header.
    #[cfg(feature = "server")]
    pub(crate) fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0))
    }
}

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
                RefusalReason::ChatRules(violation) => violation.clone().into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_openais_shape() {
        let body = ApiFailure::context_length_exceeded().to_json();
        assert_eq!(body["error"]["code"], "context_length_exceeded");
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!(ApiFailure::server_error().to_json()["error"]["code"], Value::Null);
    }

    #[cfg(feature = "server")]
    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        for (millis, secs) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
            let failure = ApiFailure::rate_limited(Duration::from_millis(millis));
            assert_eq!(failure.retry_after_secs(), Some(secs));
        }
    }
}

//! Errors as an OpenAI-compatible API sends them.

use std::time::Duration;

use serde_json::{Value, json};

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
        let after = |millis| ApiFailure::rate_limited(Duration::from_millis(millis)).retry_after_secs();
        assert_eq!([after(0), after(1), after(1_000), after(1_001)], [Some(0), Some(1), Some(1), Some(2)]);
    }
}

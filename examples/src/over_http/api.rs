//! The two APIs that are called without an SDK.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Value, json};
use tower_chat_history::{
    BoxError,
    http::{MessagesWire, ResponsesWire, Wire},
};

/// An API that is called without an SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpApi {
    /// Anthropic's Messages API
    Messages,
    /// OpenAI's Responses API
    Responses,
}

/// The environment variables of an API, and its defaults.
pub(super) struct Names {
    pub(super) key: &'static str,
    pub(super) base_url: &'static str,
    pub(super) default_url: &'static str,
    /// The path after the base URL.
    pub(super) path: &'static str,
    pub(super) model: &'static str,
    pub(super) default_model: &'static str,
}

impl HttpApi {
    pub(super) const fn names(self) -> Names {
        match self {
            Self::Messages => Names {
                key: "ANTHROPIC_API_KEY",
                base_url: "ANTHROPIC_BASE_URL",
                default_url: "https://api.anthropic.com",
                path: "/v1/messages",
                model: "ANTHROPIC_MODEL",
                default_model: "claude-haiku-5-5",
            },
            Self::Responses => Names {
                key: "OPENAI_API_KEY",
                base_url: "OPENAI_BASE_URL",
                default_url: "https://api.openai.com/v1",
                path: "/responses",
                model: "OPENAI_MODEL",
                default_model: "gpt-4o-mini",
            },
        }
    }

    /// Returns the headers of a request with this key.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be the value of a header.
    pub(super) fn headers(self, key: &str) -> Result<HeaderMap, BoxError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (name, value) = match self {
            Self::Messages => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Self::Responses => (header::AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(value)?;
        value.set_sensitive(true);
        headers.insert(name, value);
        if self == Self::Messages {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        Ok(headers)
    }

    /// Returns the body of a request with these messages or items. Anthropic requires a limit of the reply.
    #[must_use]
    pub fn body(self, model: &str, instructions: &str, input: &[Value], max_tokens: u32) -> Value {
        match self {
            Self::Messages => {
                json!({ "model": model, "max_tokens": max_tokens, "system": instructions, "messages": input })
            }
            // Nothing is stored at the provider: the layer sends the history. The item of a user has the same form as a
            // message of Anthropic's API.
            Self::Responses => json!({
                "model": model, "max_output_tokens": max_tokens, "store": false, "instructions": instructions,
                "input": input,
            }),
        }
    }

    /// Returns the text in an event of a stream.
    ///
    /// # Errors
    ///
    /// Fails if the event is an error.
    pub(super) fn text(self, event: &Value) -> Result<Option<String>, BoxError> {
        let kind = event["type"].as_str().unwrap_or_default();
        let error = match (self, kind) {
            (Self::Messages, "content_block_delta") => return Ok(event["delta"]["text"].as_str().map(str::to_owned)),
            (Self::Responses, "response.output_text.delta" | "response.refusal.delta") => {
                return Ok(event["delta"].as_str().map(str::to_owned));
            }
            (Self::Messages, "error") => &event["error"]["message"],
            (Self::Responses, "error") => &event["message"],
            (Self::Responses, "response.failed") => &event["response"]["error"]["message"],
            _ => return Ok(None),
        };
        Err(format!("the provider reports: {}", error.as_str().unwrap_or("an error without a text")).into())
    }

    /// Returns the wire, which reads whole responses.
    pub(super) fn wire(self) -> &'static dyn Wire {
        static MESSAGES: MessagesWire = MessagesWire::new();
        static RESPONSES: ResponsesWire = ResponsesWire::new();
        match self {
            Self::Messages => &MESSAGES,
            Self::Responses => &RESPONSES,
        }
    }
}

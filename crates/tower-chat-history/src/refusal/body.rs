//! The errors in a response's body.
//!
//! Each server and gateway has its own form:
//!
//! | form | of |
//! |---|---|
//! | `{"error":{"message":…,"type":…,"param":…,"code":…}}` | OpenAI and most others |
//! | `[{"error":{…}}]` | Gemini's endpoint for chat completions |
//! | `{"object":"error","message":…,"type":…,"code":…}` | vLLM to 0.14, SGLang, Mistral; Cerebras without `object` |
//! | `{"type":"error","error":{"type":…,"message":…}}` | Anthropic |
//! | `{"error":"text","code":…}` | xAI, Ollama, LM Studio, text-generation-inference |
//! | `{"message":"text"}` | Bedrock, Cohere |
//! | `{"errors":[{"message":…,"code":…}]}` | Cloudflare Workers AI, watsonx |
//! | `{"detail":"text"}`, `{"detail":[{"type":…,"loc":[…],"msg":…}]}` | FastAPI; Mistral has the list in `message` |
//! | `{"error":{"message":"Provider returned error","metadata":{"raw":"{…}"}}}` | OpenRouter |
//! | a message that has a whole body as JSON after a prefix | LiteLLM, Ollama, gateways |
//! | `data: {"error":{…}}`, `data: {"type":"error",…}`, `data: {"type":"response.failed",…}` | streams |

use serde_json::{Deserializer, Value};

use super::{
    ErrorFields, Remedy, TooLong,
    meaning::tokens,
    pattern::{Match, beginning, strip},
    wordings::{GROUPS, PREFIXES, RATES, REPRS},
};

/// The largest body that is read, in bytes. Mistral quotes whole messages.
const MAX_BODY: usize = 4 << 20;
/// The part of a message that is looked at, in bytes.
const MAX_MESSAGE: usize = 4 << 10;
/// The largest number of bodies that are nested in messages.
const MAX_NESTED: usize = 3;
/// The largest number of errors that are looked at. Mistral has one for each field of each message.
const MAX_ERRORS: usize = 64;
/// The largest number of prefixes that are stripped from a message.
const MAX_PREFIXES: usize = 12;
/// The largest number of events that are looked at. Responses has its error after one or two others.
const MAX_EVENTS: usize = 4;

/// Codes and types of prompts that are too long.
const TOO_LONG: [&str; 7] = [
    "context_length_exceeded",
    "context_too_large",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
];
/// Codes and types of encrypted elements that cannot be read.
const UNREADABLE: [&str; 2] = ["invalid_encrypted_content", "thinking_signature_invalid"];
/// Codes and types of rates and quotas. Groq and OpenAI have the type `tokens` where an account's rate is exceeded.
const RATE: [&str; 9] = [
    "429",
    "insufficient_quota",
    "rate_limit_error",
    "rate_limit_exceeded",
    "requests",
    "resource_exhausted",
    "throttlingexception",
    "tokens",
    "too_many_requests",
];

/// A refusal: its errors, outer ones first.
#[derive(Default)]
pub(super) struct Refusal {
    errors: Vec<ProviderError>,
    nested: usize,
}

/// One error.
#[derive(Default)]
struct ProviderError {
    code: String,
    kind: String,
    message: String,
    /// The sizes that fields state, as llama.cpp has them.
    sizes: TooLong,
}

impl Refusal {
    /// Reads the errors of a body.
    pub(super) fn of_body(body: &[u8]) -> Self {
        let mut refusal = Self::default();
        let text = match std::str::from_utf8(body) {
            Ok(text) if text.len() <= MAX_BODY => text.trim_start(),
            _ => return refusal,
        };

        if is_stream(text) {
            refusal.read_events(text);
        } else if let Ok(value) = serde_json::from_str(text) {
            refusal.read(&value);
        } else {
            // A body without JSON is a message, unless it is a page of a proxy.
            refusal.read_message(text);
        }
        refusal
    }

    /// Reads the error of a client.
    pub(super) fn of_error(error: &ErrorFields<'_>) -> Self {
        let code = error.code.unwrap_or_default().to_owned();
        let kind = error.kind.unwrap_or_default().to_owned();

        let mut refusal = Self::default();
        refusal.push(ProviderError { code, kind, message: error.message.to_owned(), sizes: TooLong::default() });
        refusal.read_nested(error.message);
        refusal
    }

    /// Returns what would help.
    pub(super) fn remedy(&self, status: Option<u16>) -> Option<Remedy> {
        // The status of a stream is that of its beginning.
        let status = status.filter(|status| *status >= 400);
        let is_of_request = status.is_none_or(|status| matches!(status, 400 | 404 | 409 | 413 | 422 | 500));
        if !is_of_request || self.errors.iter().any(ProviderError::is_rate) {
            return None;
        }

        let mut remedy = None;
        for error in &self.errors {
            remedy = both(remedy, error.said());
        }
        let remedy = remedy.or_else(|| self.errors.iter().find_map(ProviderError::coded));
        if remedy.is_none() && status == Some(413) {
            return Some(Remedy::FewerBytes);
        }
        remedy
    }

    /// Reads the first events that have an error.
    fn read_events(&mut self, text: &str) {
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        for data in data.take(MAX_EVENTS) {
            let Ok(value) = serde_json::from_str::<Value>(data) else { continue };
            self.read(&value);
            if !self.errors.is_empty() {
                return;
            }
        }
    }

    /// Reads the errors of a value.
    fn read(&mut self, value: &Value) {
        match value {
            Value::Array(values) => {
                for value in values.iter().take(MAX_ERRORS) {
                    self.read(value);
                }
            }
            Value::Object(fields) if fields.contains_key("loc") => self.read_detail(value),
            Value::Object(_) => self.read_object(value),
            Value::String(text) => self.read_message(text),
            _ => {}
        }
    }

    /// Reads the errors of an object: its own, and those in it.
    fn read_object(&mut self, value: &Value) {
        let error = ProviderError {
            code: text_of(value, "code"),
            kind: text_of(value, "type"),
            message: text_of(value, "message"),
            sizes: TooLong {
                limit: tokens(value.get("n_ctx").and_then(Value::as_u64)),
                prompt: tokens(value.get("n_prompt_tokens").and_then(Value::as_u64)),
            },
        };
        let message = error.message.clone();
        // The type of an event is none of an error.
        let is_error =
            !message.is_empty() || !error.code.is_empty() || value.get("error").is_some_and(|error| !error.is_null());
        if is_error {
            self.push(error);
            self.read_nested(&message);
        }

        let inner = [
            value.get("error"),
            value.get("errors"),
            value.get("detail"),
            value.get("message").filter(|message| message.is_array() || message.get("detail").is_some()),
            value.get("metadata").and_then(|metadata| metadata.get("raw")),
            value.get("response").and_then(|response| response.get("error")),
        ];
        for value in inner.into_iter().flatten() {
            self.read(value);
        }
    }

    /// Reads an error of pydantic: a path and a message.
    fn read_detail(&mut self, value: &Value) {
        let mut message = String::new();
        for part in value.get("loc").and_then(Value::as_array).into_iter().flatten() {
            if !message.is_empty() {
                message.push('.');
            }
            match part {
                Value::String(name) => message.push_str(name),
                part => message.push_str(&part.to_string()),
            }
        }
        message.push_str(": ");
        message.push_str(&text_of(value, "msg"));
        self.push(ProviderError { message, ..ProviderError::default() });
    }

    fn read_message(&mut self, text: &str) {
        self.push(ProviderError { message: text.to_owned(), ..ProviderError::default() });
        self.read_nested(text);
    }

    /// Reads the body that a message has after its prefixes.
    fn read_nested(&mut self, message: &str) {
        let rest = without_prefixes(message);
        if self.nested >= MAX_NESTED || !rest.starts_with(['{', '[']) {
            return;
        }

        // Text may follow, for example the groups of models of LiteLLM.
        if let Some(Ok(value)) = Deserializer::from_str(rest).into_iter::<Value>().next() {
            self.nested += 1;
            self.read(&value);
            self.nested -= 1;
        }
    }

    fn push(&mut self, error: ProviderError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}

impl ProviderError {
    /// Returns what would help, by the message.
    fn said(&self) -> Option<Remedy> {
        let message = without_prefixes(beginning(&self.message, MAX_MESSAGE));
        for group in GROUPS {
            for (wording, _) in group.wordings {
                let Some(found) = Match::new(message, wording) else { continue };
                match group.meaning.remedy(&found) {
                    Some(Remedy::Shorten(sizes)) => return Some(Remedy::Shorten(self.with_fields(sizes))),
                    Some(remedy) => return Some(remedy),
                    None => {}
                }
            }
        }
        None
    }

    /// Returns what would help, by the code and the type, and by the name that LiteLLM gives the error.
    fn coded(&self) -> Option<Remedy> {
        let message = self.message.strip_prefix("litellm.").unwrap_or(&self.message);
        if self.has(&TOO_LONG) || message.starts_with("ContextWindowExceededError: ") {
            return Some(Remedy::Shorten(self.sizes));
        }
        if self.has(&["request_too_large"]) {
            return Some(Remedy::FewerBytes);
        }
        self.has(&UNREADABLE).then_some(Remedy::WithoutEncrypted)
    }

    fn is_rate(&self) -> bool {
        let message = without_prefixes(beginning(&self.message, MAX_MESSAGE));
        self.has(&RATE) || RATES.iter().any(|(wording, _)| Match::new(message, wording).is_some())
    }

    /// Returns `true` if the code or the type is one of these, in any case of letters.
    fn has(&self, values: &[&str]) -> bool {
        values.iter().any(|value| self.code.eq_ignore_ascii_case(value) || self.kind.eq_ignore_ascii_case(value))
    }

    fn with_fields(&self, said: TooLong) -> TooLong {
        TooLong { limit: said.limit.or(self.sizes.limit), prompt: said.prompt.or(self.sizes.prompt) }
    }
}

/// Joins the remedies of two errors of one refusal. The first one decides, unless both are adaptations.
fn both(one: Option<Remedy>, other: Option<Remedy>) -> Option<Remedy> {
    match (one, other) {
        (Some(Remedy::Adapt(one)), Some(Remedy::Adapt(other))) => Some(Remedy::Adapt(Box::new(one.and(&other)))),
        (one, other) => one.or(other),
    }
}

/// Returns `true` if the text is a stream of events.
fn is_stream(text: &str) -> bool {
    ["data:", "event:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field))
}

/// Returns a field's text, or its number as text.
fn text_of(value: &Value, field: &str) -> String {
    match value.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Strips the texts that servers, gateways and clients put before the words of others.
fn without_prefixes(message: &str) -> &str {
    let mut rest = message.trim_start();
    for _ in 0..MAX_PREFIXES {
        let next = PREFIXES
            .iter()
            .find_map(|(prefix, _)| Match::new(rest, prefix).map(|found| found.rest))
            .or_else(|| REPRS.iter().find_map(|repr| strip(rest, repr)))
            .or_else(|| without_exception(rest));
        let Some(next) = next else { break };
        rest = next.trim_start();
    }
    rest
}

/// Strips the name of an exception, for example `litellm.BadRequestError: ` or `VertexAIException BadRequestError - `.
fn without_exception(text: &str) -> Option<&str> {
    let length = exception_length(text)?;
    let rest = text.get(length..)?;
    let next = rest.strip_prefix(": ").or_else(|| rest.strip_prefix(" - "));
    next.or_else(|| rest.strip_prefix(' ').filter(|next| exception_length(next).is_some()))
}

/// Returns the length of the name of an exception that a text begins with.
fn exception_length(text: &str) -> Option<usize> {
    let length = beginning(text, 80).find(|next: char| !next.is_ascii_alphanumeric() && !matches!(next, '.' | '_'))?;
    let name = text.get(..length)?;
    (name.ends_with("Error") || name.ends_with("Exception")).then_some(length)
}

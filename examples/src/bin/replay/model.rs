//! A mock model that returns the recorded replies, and reports the cached prefix of each prompt.

use std::{
    future::{Ready, ready},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use serde_json::{Value, json};
use tower::Service;
use tower_chat_history::{
    BoxError, Message,
    tokens::{REPLY_PRIMING, TokenCounter, tokens_of},
};
use tower_chat_history_test::check_chat_rules;

use super::{
    policy::Policy,
    prefixes::{Prefixes, cached_by_provider},
    recording::Call,
};

/// The field of a request that contains its recorded reply. The layer leaves unknown fields unchanged.
const RECORDED: &str = "recorded";

/// The mock model of one run. Clones share the prompts that were sent.
#[derive(Clone)]
pub(crate) struct Model {
    sent: Arc<Mutex<Prefixes>>,
    counter: Arc<dyn TokenCounter>,
    provider_cache: bool,
}

impl Model {
    pub(crate) fn new(policy: &Policy) -> Self {
        let Policy { counter, provider_cache, .. } = policy;
        Self { sent: Arc::default(), counter: Arc::clone(counter), provider_cache: *provider_cache }
    }

    /// Returns the request of a recorded call.
    pub(crate) fn request(call: &Call) -> Value {
        let messages: Vec<&Message> = call.head.iter().chain(&call.input).collect();
        json!({"model": "recorded", "messages": messages, RECORDED: call.reply})
    }

    /// Returns the tokens of a prompt and of its cached prefix, as the response reports them.
    pub(crate) fn usage(response: &Value) -> Option<(u64, u64)> {
        let tokens = |path| response.pointer(path).and_then(Value::as_u64);
        Some((tokens("/usage/prompt_tokens")?, tokens("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0)))
    }

    fn answer(&self, mut request: Value) -> Result<Value, BoxError> {
        let reply = request[RECORDED].take();
        let prompt: Vec<Message> = serde_json::from_str(&request["messages"].to_string())?;
        // A provider would refuse an invalid prompt. The layer never sends one.
        check_chat_rules(&prompt)?;
        let known = self.sent.lock().unwrap_or_else(PoisonError::into_inner).send(prompt.iter().map(Message::json));
        let tokens = |messages: &[Message]| -> u64 {
            messages.iter().map(|message| u64::from(tokens_of(&self.counter, message))).sum()
        };
        let cached = tokens(&prompt[..known]);
        let cached = if self.provider_cache { cached_by_provider(cached) } else { cached };
        Ok(json!({
            "model": "recorded",
            "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens(&prompt) + u64::from(REPLY_PRIMING),
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }))
    }
}

impl Service<Value> for Model {
    type Response = Value;
    type Error = BoxError;
    type Future = Ready<Result<Value, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Value) -> Self::Future {
        ready(self.answer(request))
    }
}

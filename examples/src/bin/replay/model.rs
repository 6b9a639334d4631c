//! In place of the model: it answers what was recorded, and reports what its cache would have had.

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

/// The field of a request in which its recorded reply stands. The layer leaves fields alone that it does not know.
const RECORDED: &str = "recorded";

/// A model for one run. Clones share what has been sent.
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

    /// A recorded call, as a program sends it.
    pub(crate) fn request(call: &Call) -> Value {
        let messages: Vec<&Message> = call.head.iter().chain(&call.input).collect();
        json!({"model": "recorded", "messages": messages, RECORDED: call.reply})
    }

    /// The tokens of a prompt, and the warm ones among them, as the response reports them.
    pub(crate) fn usage(response: &Value) -> Option<(u64, u64)> {
        let tokens = |path| response.pointer(path).and_then(Value::as_u64);
        Some((tokens("/usage/prompt_tokens")?, tokens("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0)))
    }

    fn answer(&self, mut request: Value) -> Result<Value, BoxError> {
        let reply = request[RECORDED].take();
        let prompt: Vec<Message> = serde_json::from_str(&request["messages"].to_string())?;
        // A provider refuses what breaks the rules. The layer has seen to that.
        check_chat_rules(&prompt)?;
        let known = self.sent.lock().unwrap_or_else(PoisonError::into_inner).send(prompt.iter().map(Message::json));
        let tokens = |messages: &[Message]| -> u64 {
            messages.iter().map(|message| u64::from(tokens_of(&self.counter, message))).sum()
        };
        let warm = tokens(&prompt[..known]);
        let warm = if self.provider_cache { cached_by_provider(warm) } else { warm };
        Ok(json!({
            "model": "recorded",
            "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens(&prompt) + u64::from(REPLY_PRIMING),
                "prompt_tokens_details": {"cached_tokens": warm},
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

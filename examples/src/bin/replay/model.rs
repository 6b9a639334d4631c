//! A mock model that returns the recorded replies, and reports the cached prefix of each prompt.

use std::{
    collections::HashSet,
    future::{Ready, ready},
    hash::{DefaultHasher, Hash as _, Hasher as _},
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

use super::{policy::Policy, recording::Call};

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
        Self { sent: Arc::default(), counter: Arc::clone(&policy.counter), provider_cache: policy.provider_cache }
    }

    /// Returns the request of a recorded call.
    pub(crate) fn request(call: &Call) -> Value {
        let messages: Vec<&Message> = call.head.iter().chain(&call.input).collect();
        json!({"model": "recorded", "messages": messages, RECORDED: call.reply})
    }

    /// Returns the tokens of a prompt and of its cached prefix, as the response reports them.
    pub(crate) fn usage(response: &Value) -> Option<(u64, u64)> {
        let usage = &response["usage"];
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        Some((usage["prompt_tokens"].as_u64()?, cached))
    }

    fn answer(&self, mut request: Value) -> Result<Value, BoxError> {
        let reply = request[RECORDED].take();
        let prompt: Vec<Message> = serde_json::from_str(&request["messages"].to_string())?;
        // A provider would refuse an invalid prompt. The layer never sends one.
        check_chat_rules(&prompt)?;

        let known = self.sent.lock().unwrap_or_else(PoisonError::into_inner).send(prompt.iter().map(Message::json));
        let mut cached = self.count(&prompt[..known]);
        if self.provider_cache {
            cached = cached_by_provider(cached);
        }

        Ok(json!({
            "model": "recorded",
            "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": self.count(&prompt) + u64::from(REPLY_PRIMING),
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }))
    }

    fn count(&self, messages: &[Message]) -> u64 {
        messages.iter().map(|message| u64::from(tokens_of(&self.counter, message))).sum()
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

/// The prefixes of all prompts of a run, in whole messages: a trie whose nodes are identified by the hash of their
/// path.
#[derive(Default)]
struct Prefixes(HashSet<u64>);

impl Prefixes {
    /// Adds a prompt. Returns the number of messages at its beginning that an earlier prompt also begins with.
    fn send<'a>(&mut self, prompt: impl IntoIterator<Item = &'a str>) -> usize {
        let mut path = 0;
        let mut known = 0;
        let mut is_known = true;
        for message in prompt {
            let mut hasher = DefaultHasher::new();
            (path, message).hash(&mut hasher);
            path = hasher.finish();
            is_known &= !self.0.insert(path);
            known += usize::from(is_known);
        }
        known
    }
}

/// Returns the tokens of a prefix that OpenAI's cache would have: a multiple of 128, or 0 below 1,024.
const fn cached_by_provider(tokens: u64) -> u64 {
    if tokens < 1_024 { 0 } else { tokens / 128 * 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_known_after_it_was_sent() {
        let mut prefixes = Prefixes::default();
        assert_eq!(prefixes.send(["s", "a", "b"]), 0);
        assert_eq!(prefixes.send(["s", "a", "b", "c"]), 3);
        assert_eq!(prefixes.send(["s", "b", "c"]), 1, "the same messages after another prefix are not known");
        assert_eq!(prefixes.send(["s", "a", "b"]), 3, "known prefixes stay known");
        assert_eq!(prefixes.send(["a", "b"]), 0);
        assert_eq!(prefixes.send(["s", "b", "c", "d"]), 3);
    }

    #[test]
    fn the_provider_caches_in_steps_of_128_tokens() {
        assert_eq!([0, 1_023, 1_024, 1_151, 1_152].map(cached_by_provider), [0, 0, 1_024, 1_024, 1_152]);
    }
}

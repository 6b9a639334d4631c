//! A reply as one JSON document of the chat-completions format.

use serde_json::{Value, json};
use tower_chat_history_core::{Message, Usage};

use super::{ApiFailure, BreakOff, Choice, Outcome, Reply, Reported};

/// When every answer was made: constant, so that answers are the same on every run.
pub(crate) const CREATED: u32 = 1_700_000_000;

/// What of a request shapes the answer.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Which request of the mock this is, from 1.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) n: usize,
    pub(crate) include_usage: bool,
    pub(crate) prompt_bytes: usize,
}

impl Asked {
    pub(crate) fn prompt_bytes(prompt: &[Message]) -> usize {
        prompt.iter().map(Message::bytes).sum()
    }

    pub(super) fn id(&self) -> String {
        format!("chatcmpl-mock-{}", self.number)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Stopped {
    Failure(ApiFailure),
    /// The connection broke.
    Lost,
    Panic(String),
}

impl Reply {
    /// Waits for the latency. Without one no timer is needed, and no runtime.
    pub(crate) async fn wait(&self) {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
    }

    /// The whole answer as JSON text.
    pub(crate) fn completion(&self, asked: &Asked) -> Result<String, Stopped> {
        let choices = self.chosen(asked)?;
        match &self.break_off {
            Some((_, BreakOff::Abort)) => return Err(Stopped::Lost),
            Some((_, BreakOff::Error(failure))) => return Err(Stopped::Failure(failure.clone())),
            Some((_, BreakOff::Panic(message))) => return Err(Stopped::Panic(message.clone())),
            Some((_, BreakOff::End)) | None => {}
        }
        let indexed = choices.iter().enumerate().map(|(index, choice)| {
            json!({
                "index": index,
                "message": choice.message(),
                "finish_reason": choice.finish_reason(),
                "logprobs": null,
            })
        });
        let mut completion = json!({
            "id": asked.id(),
            "object": "chat.completion",
            "created": CREATED,
            "model": self.named(asked),
            "choices": indexed.collect::<Value>(),
        });
        if let Some(usage) = self.reported(asked, &choices) {
            completion["usage"] = usage;
        }
        Ok(completion.to_string())
    }

    /// The choices to send, as many as were asked for.
    pub(super) fn chosen(&self, asked: &Asked) -> Result<Vec<Choice>, Stopped> {
        match &self.outcome {
            Outcome::Each(choice) => Ok(vec![choice.clone(); asked.n]),
            Outcome::Exactly(choices) => Ok(choices.clone()),
            Outcome::Failure(failure) => Err(Stopped::Failure(failure.clone())),
            Outcome::Panic(message) => Err(Stopped::Panic(message.clone())),
        }
    }

    pub(super) fn named<'a>(&'a self, asked: &'a Asked) -> &'a str {
        self.model.as_deref().unwrap_or(&asked.model)
    }

    pub(super) fn reported(&self, asked: &Asked, choices: &[Choice]) -> Option<Value> {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        let usage = match self.usage {
            Reported::Derived => {
                let output = choices.iter().map(|choice| tokens(choice.bytes())).sum();
                Usage::new(tokens(asked.prompt_bytes), output)
            }
            Reported::Given(usage) => usage,
            Reported::Nothing => return None,
        };
        let mut reported = json!({
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        });
        if let Some(cached) = usage.cached_input_tokens {
            reported["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        }
        Some(reported)
    }
}

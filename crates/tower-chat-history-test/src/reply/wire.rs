//! A reply as one JSON document of the chat-completions format.

use serde_json::{Value, json};
use tower_chat_history_core::{Message, Usage};

use super::{ApiFailure, BreakOff, Choice, Outcome, Reply};
use crate::provider::Signer;

/// The creation time of every reply: constant, so that replies are the same on every run.
pub(crate) const CREATED: u32 = 1_700_000_000;

/// The parts of a request that the reply depends on.
#[derive(Debug)]
pub(crate) struct RequestParams {
    /// The number of the request at the mock, from 1.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) n: usize,
    pub(crate) include_usage: bool,
    pub(crate) prompt_bytes: usize,
    /// The provider, with the prompt.
    pub(crate) signer: Signer,
}

impl RequestParams {
    pub(crate) fn prompt_bytes(prompt: &[Message]) -> usize {
        prompt.iter().map(Message::bytes).sum()
    }

    pub(super) fn id(&self) -> String {
        format!("chatcmpl-mock-{}", self.number)
    }
}

/// The reason why there is no reply.
#[derive(Debug)]
pub(crate) enum NoReply {
    Failure(ApiFailure),
    /// The connection is aborted.
    Aborted,
    Panic(String),
}

impl NoReply {
    /// Returns the error for a reply with several choices to a request of an API that has none.
    #[cfg(feature = "server")]
    pub(super) fn several_choices() -> Self {
        let message = "the mock's reply has several choices, which the API does not have";
        Self::Failure(ApiFailure::new(400, message).code("several_choices"))
    }
}

impl Reply {
    /// Waits for the latency. If it is zero, no timer and no runtime are needed.
    pub(crate) async fn wait(&self) {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
    }

    /// Returns the whole reply as JSON text.
    pub(crate) fn completion(&self, params: &RequestParams) -> Result<String, NoReply> {
        let choices = self.choices_for(params)?;
        self.check_whole()?;
        let indexed = choices.iter().enumerate().map(|(index, choice)| {
            json!({
                "index": index,
                "message": choice.message(),
                "finish_reason": choice.finish_reason(),
                "logprobs": null,
            })
        });

        let completion = json!({
            "id": params.id(),
            "object": "chat.completion",
            "created": CREATED,
            "model": self.model_for(params),
            "choices": indexed.collect::<Value>(),
            "usage": self.usage_for(params, &choices),
        });
        Ok(completion.to_string())
    }

    /// Returns the reason why a whole reply does not arrive, if there is one.
    pub(super) fn check_whole(&self) -> Result<(), NoReply> {
        match &self.break_off {
            Some((_, BreakOff::Abort)) => Err(NoReply::Aborted),
            Some((_, BreakOff::Error(failure))) => Err(NoReply::Failure(failure.clone())),
            Some((_, BreakOff::Panic(message))) => Err(NoReply::Panic(message.clone())),
            Some((_, BreakOff::End)) | None => Ok(()),
        }
    }

    /// Returns the choices to send.
    pub(super) fn choices_for(&self, params: &RequestParams) -> Result<Vec<Choice>, NoReply> {
        match &self.outcome {
            Outcome::Each(choice) => {
                let made = choice.clone().made_by(&params.signer, self.chunk_chars);
                Ok(vec![made; params.n])
            }
            Outcome::Exactly(choices) => {
                let choices = choices.iter().cloned();
                Ok(choices.map(|choice| choice.made_by(&params.signer, self.chunk_chars)).collect())
            }
            Outcome::Failure(failure) => Err(NoReply::Failure(failure.clone())),
            Outcome::Panic(message) => Err(NoReply::Panic(message.clone())),
        }
    }

    pub(super) fn model_for<'a>(&'a self, params: &'a RequestParams) -> &'a str {
        self.model.as_deref().unwrap_or(&params.model)
    }

    pub(super) fn usage_for(&self, params: &RequestParams, choices: &[Choice]) -> Value {
        let usage = self.usage.unwrap_or_else(|| {
            let output = choices.iter().map(|choice| tokens(choice.bytes())).sum();
            Usage::new(tokens(params.prompt_bytes), output)
        });

        let mut reported = json!({
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        });
        if let Some(cached) = usage.cached_input_tokens {
            reported["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        }
        reported
    }
}

/// Returns the number of tokens that usage reports for this many bytes.
fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

//! The wire of chat completions.

mod body;
mod fold;
#[cfg(test)]
mod fold_tests;

use bytes::Bytes;
use http::Uri;

use self::fold::ChatFold;
use crate::{
    adapt::{FoldReply, completion},
    call::Reply,
    dialect::{ChatCompletions, Dialect},
    engine::InputMode,
    http::{
        error::CallError,
        openai,
        refusal::Refusal,
        sse::Event,
        wire::{OpenedBody, Wire},
    },
};

/// The wire of chat completions, for OpenAI, Azure, and all providers with an endpoint of the same format.
///
/// The messages are the list `messages`. The reply is read by the rules of
/// [`completion`](crate::adapt::completion). Streams end with the event `[DONE]`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ChatWire;

impl ChatWire {
    /// Creates the wire.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Wire for ChatWire {
    fn dialect(&self) -> &'static dyn Dialect {
        &ChatCompletions
    }

    /// Returns `azure.ai.openai` for Azure's hosts, and for a deployment in the path, and `openai` for all others.
    fn provider(&self, uri: &Uri) -> &'static str {
        openai::provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        body::open(body, mode, few_shot_messages)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        completion::reply_of(body)
    }

    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(ChatFold::new(choices))
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        openai::refusal(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azure_is_recognized_by_its_addresses() {
        for (url, expected) in [
            ("https://api.openai.com/v1/chat/completions", "openai"),
            ("https://api.groq.com/openai/v1/chat/completions", "openai"),
            ("https://mine.openai.azure.com/openai/v1/chat/completions", "azure.ai.openai"),
            ("https://gateway.test/openai/deployments/d/chat/completions?api-version=1", "azure.ai.openai"),
            ("/v1/chat/completions", "openai"),
        ] {
            assert_eq!(ChatWire.provider(&url.parse().unwrap()), expected, "{url}");
        }
    }
}

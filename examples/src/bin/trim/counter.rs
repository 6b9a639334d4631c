//! The counter that the command line asks for.

use std::sync::Arc;

use tower_chat_history::{
    Message,
    tokens::{CountCache, LangChainEstimate, MessageCount, TokenCounter},
};
use tower_chat_history_openai::tokens::Tiktoken;

use super::args::Counter;

/// The counter of that name.
pub(crate) fn counter(counter: Counter) -> Box<dyn TokenCounter> {
    match counter {
        Counter::O200k => Box::new(Cached::new(Tiktoken::o200k())),
        Counter::Cl100k => Box::new(Cached::new(Tiktoken::cl100k())),
        Counter::Approximate => Box::new(LangChainEstimate::new()),
        Counter::Messages => Box::new(MessageCount::new()),
    }
}

/// A counter that counts a message once, though it stands in many requests: conversations grow, and repeat what was.
#[derive(Debug)]
struct Cached<C> {
    counter: C,
    cache: CountCache,
}

impl<C: TokenCounter> Cached<C> {
    fn new(counter: C) -> Self {
        Self { counter, cache: CountCache::default() }
    }
}

impl<C: TokenCounter> TokenCounter for Cached<C> {
    fn name(&self) -> Option<&Arc<str>> {
        self.counter.name()
    }

    fn count_text(&self, text: &str) -> u32 {
        self.counter.count_text(text)
    }

    fn count_message(&self, message: &Message) -> u32 {
        self.cache.tokens_of(&self.counter, message)
    }
}

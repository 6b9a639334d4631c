//! What counts tokens, by name.

use std::sync::Arc;

use clap::ValueEnum;
use tower_chat_history::tokens::{Cached, LangChainEstimate, MessageCount, TokenCounter};
use tower_chat_history_openai::tokens::Tiktoken;

/// What counts tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Counter {
    /// Exactly, for GPT-4o and later.
    O200k,
    /// Exactly, for GPT-4 and GPT-3.5.
    Cl100k,
    /// As LangChain's count_tokens_approximately.
    Approximate,
    /// Each message as one token.
    Messages,
}

impl Counter {
    /// The counter of that name. Conversations grow, and repeat what was: each message is counted once.
    #[must_use]
    pub fn make(self) -> Arc<dyn TokenCounter> {
        match self {
            Self::O200k => Arc::new(Cached::new(Tiktoken::o200k())),
            Self::Cl100k => Arc::new(Cached::new(Tiktoken::cl100k())),
            Self::Approximate => Arc::new(LangChainEstimate::new()),
            Self::Messages => Arc::new(MessageCount::new()),
        }
    }
}

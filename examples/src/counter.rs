//! Token counters by name, for the command line.

use std::sync::Arc;

use clap::ValueEnum;
use tower_chat_history::tokens::{Cached, LangChainEstimate, MessageCount, TokenCounter};
use tower_chat_history_openai::tokens::Tiktoken;

/// A token counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Counter {
    /// Exact counts for GPT-4o and later
    O200k,
    /// Exact counts for GPT-4 and GPT-3.5
    Cl100k,
    /// The estimate of LangChain's count_tokens_approximately
    Approximate,
    /// One token per message
    Messages,
}

impl Counter {
    /// Creates the counter. The exact counters cache their counts, because a growing conversation repeats its messages.
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

//! The counter that the command line asks for.

use tower_chat_history::tokens::{Cached, LangChainEstimate, MessageCount, TokenCounter};
use tower_chat_history_openai::tokens::Tiktoken;

use super::args::Counter;

/// The counter of that name. Conversations grow, and repeat what was: each message is counted once.
pub(crate) fn counter(counter: Counter) -> Box<dyn TokenCounter> {
    match counter {
        Counter::O200k => Box::new(Cached::new(Tiktoken::o200k())),
        Counter::Cl100k => Box::new(Cached::new(Tiktoken::cl100k())),
        Counter::Approximate => Box::new(LangChainEstimate::new()),
        Counter::Messages => Box::new(MessageCount::new()),
    }
}

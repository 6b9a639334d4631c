//! Parts of command lines and of programs: a token counter by name, and the request to end the program.

use std::sync::Arc;

use clap::ValueEnum;
use tower_chat_history::tokens::{CachedCounter, LangChainEstimate, MessageCount, TokenCounter};
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
            Self::O200k => Arc::new(CachedCounter::new(Tiktoken::o200k())),
            Self::Cl100k => Arc::new(CachedCounter::new(Tiktoken::cl100k())),
            Self::Approximate => Arc::new(LangChainEstimate::new()),
            Self::Messages => Arc::new(MessageCount::new()),
        }
    }
}

/// Begins to listen for the request to end the program: Ctrl+C, or the signal that `docker stop` and systemd send. The
/// future waits for it. Call this within a runtime, and before the program reports that it is ready. Without handlers
/// for the signals, the program runs until it is killed.
#[cfg(unix)]
pub fn interrupted() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt()).ok();
    let mut terminate = signal(SignalKind::terminate()).ok();
    async move {
        tokio::select! {
            Some(()) = received(interrupt.as_mut()) => {}
            Some(()) = received(terminate.as_mut()) => {}
            else => std::future::pending().await,
        }
    }
}

/// Waits for a signal. Returns `None` if it cannot be received.
#[cfg(unix)]
async fn received(signal: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    signal?.recv().await
}

/// Waits for the request to end the program, which is Ctrl+C.
#[cfg(not(unix))]
pub async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

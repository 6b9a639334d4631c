//! Counting what is new: each message once, large ones where they block nobody.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::runtime::Handle;
use tower_chat_history_core::{Message, TokenCounts};

use crate::tokens::{TokenCounter, tokens_of};

/// From this size on, in bytes of JSON, messages are counted on a thread for blocking work. Tokenizers take up to a second a
/// megabyte for what is made to be slow, so this is at most some 60 milliseconds, and mostly 2.
const LARGE: usize = 1 << 16;

/// The counts to store with these messages: none if the counter's are not to be remembered, or if it panicked. A reply is not
/// lost for want of a number.
pub(super) async fn counts(
    counter: &Arc<dyn TokenCounter>,
    messages: &[Message],
    runtime: Option<&Handle>,
) -> Option<TokenCounts> {
    let name = counter.name()?;
    let unknown = messages.iter().filter(|message| message.tokens_by(name).is_none());
    let counts = match runtime.filter(|_| unknown.map(Message::bytes).sum::<usize>() >= LARGE) {
        None => catch(counter, messages),
        Some(runtime) => {
            let (counter, messages) = (Arc::clone(counter), messages.to_vec());
            runtime.spawn_blocking(move || catch(&counter, &messages)).await.ok().flatten()
        }
    };
    Some(TokenCounts { counter: name.to_string(), counts: counts? })
}

fn catch(counter: &Arc<dyn TokenCounter>, messages: &[Message]) -> Option<Vec<u32>> {
    let count = || messages.iter().map(|message| tokens_of(counter, message)).collect();
    let counts = catch_unwind(AssertUnwindSafe(count)).ok();
    if counts.is_none() {
        tracing::error!("the token counter panicked; the exchange is stored without counts");
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use super::*;

    /// Counts by the thread that it is asked on.
    #[derive(Debug)]
    struct Watched {
        name: Arc<str>,
        thread: ThreadId,
        large: bool,
    }

    impl TokenCounter for Watched {
        fn name(&self) -> Option<&Arc<str>> {
            Some(&self.name)
        }

        fn count_text(&self, text: &str) -> u32 {
            assert_ne!(text, "panic");
            assert_eq!(thread::current().id() != self.thread, self.large, "of {} bytes", text.len());
            1
        }
    }

    async fn counted(texts: &[String]) -> Option<Vec<u32>> {
        let large = texts.iter().map(String::len).sum::<usize>() >= LARGE;
        let watched: Arc<dyn TokenCounter> =
            Arc::new(Watched { name: "watched".into(), thread: thread::current().id(), large });
        let messages: Vec<Message> = texts.iter().map(Message::user).collect();
        let counts = counts(&watched, &messages, Some(&Handle::current())).await?;
        assert_eq!(counts.counter, "watched");
        Some(counts.counts)
    }

    #[tokio::test]
    async fn large_texts_are_counted_elsewhere() {
        assert_eq!(counted(&["small".to_owned(), "x".repeat(LARGE / 2)]).await, Some(vec![5, 5]));
        assert_eq!(counted(&["small".to_owned(), "x".repeat(LARGE)]).await, Some(vec![5, 5]));
    }

    #[tokio::test]
    async fn a_counter_that_panics_costs_the_counts_only() {
        assert_eq!(counted(&["panic".to_owned()]).await, None);
    }
}

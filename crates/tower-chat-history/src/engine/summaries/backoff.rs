//! Pauses after failed summaries. Without them, every turn would call a summarizer that is down.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tower_chat_history_core::ConversationId;

/// The pause after the first failure. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The largest number of conversations with a pause. If one more fails, all pauses end early.
const MAX_CONVERSATIONS: usize = 10_000;

/// The conversations whose last summary failed.
#[derive(Debug, Default)]
pub(super) struct SummaryBackoff(Mutex<HashMap<ConversationId, Pause>>);

#[derive(Clone, Copy, Debug)]
struct Pause {
    failures: u32,
    until: Instant,
}

impl SummaryBackoff {
    pub(super) fn is_paused(&self, conversation: &ConversationId) -> bool {
        self.lock().get(conversation).is_some_and(|pause| Instant::now() < pause.until)
    }

    pub(super) fn failed(&self, conversation: &ConversationId) {
        let mut pauses = self.lock();
        if pauses.len() >= MAX_CONVERSATIONS && !pauses.contains_key(conversation) {
            pauses.clear();
        }
        let failures = pauses.get(conversation).map_or(0, |pause| pause.failures);
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
        let pause = Pause { failures: failures.saturating_add(1), until: Instant::now() + pause };
        pauses.insert(conversation.clone(), pause);
    }

    pub(super) fn succeeded(&self, conversation: &ConversationId) {
        self.lock().remove(conversation);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_pause_and_a_success_ends_it() {
        let (backoff, id) = (SummaryBackoff::default(), ConversationId::new(["a"]).unwrap());
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert!(!backoff.is_paused(&id));
            backoff.failed(&id);
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(backoff.is_paused(&id), "{seconds}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        backoff.failed(&id);
        backoff.succeeded(&id);
        assert!(!backoff.is_paused(&id));
        assert!(!backoff.is_paused(&ConversationId::new(["b"]).unwrap()));
    }
}

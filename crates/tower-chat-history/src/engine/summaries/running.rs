//! The running summaries of an engine.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, Shared},
};
use tower_chat_history_core::ConversationId;

use crate::{
    spawn::{Spawn, spawn_guarded},
    summary::SummaryReport,
};

pub(super) type Running = Shared<BoxFuture<'static, Option<Arc<SummaryReport>>>>;

/// The running summaries, at most one per conversation.
///
/// Each summary removes itself when it is done, even if a waiting call polled it to its end instead of its task,
/// whose runtime may have shut down.
#[derive(Default)]
pub(super) struct RunningSummaries(Mutex<ByConversation>);

#[derive(Default)]
struct ByConversation {
    running: HashMap<ConversationId, (u64, Running)>,
    next_key: u64,
}

impl RunningSummaries {
    /// Begins a summary and passes it to the spawner, so that it finishes even if no call waits for it. If the
    /// conversation already has a running summary, returns that one as `Err`.
    pub(super) fn run(
        self: &Arc<Self>,
        conversation: &ConversationId,
        spawner: &dyn Spawn,
        work: impl Future<Output = Option<Arc<SummaryReport>>> + Send + 'static,
    ) -> Result<Running, Running> {
        let mut all = self.lock();
        if let Some((_, running)) = all.running.get(conversation) {
            return Err(running.clone());
        }
        let key = all.next_key;
        all.next_key += 1;
        let entry = || Entry { summaries: Arc::downgrade(self), conversation: conversation.clone(), key };
        let (of_work, of_task) = (entry(), entry());
        let work = async move {
            let _entry = of_work;
            AssertUnwindSafe(work).catch_unwind().await.ok().flatten()
        };
        let running = work.boxed().shared();
        all.running.insert(conversation.clone(), (key, running.clone()));
        drop(all);
        let driven = running.clone();
        let task = async move {
            // If the task is dropped with its runtime, the summary is removed, so that it can be made again.
            let _entry = of_task;
            driven.await;
        };
        spawn_guarded(spawner, task.boxed());
        Ok(running)
    }

    /// Returns the number of running summaries.
    pub(super) fn len(&self) -> usize {
        self.lock().running.len()
    }

    /// Finishes all running summaries.
    pub(super) async fn drained(&self) {
        loop {
            let running: Vec<Running> = self.lock().running.values().map(|(_, running)| running.clone()).collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByConversation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a summary from the running ones when it is done, or when its task is dropped.
struct Entry {
    summaries: Weak<RunningSummaries>,
    conversation: ConversationId,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(summaries) = self.summaries.upgrade() else { return };
        let mut all = summaries.lock();
        // The conversation's next summary may have begun since this one was done.
        let is_this = all.running.get(&self.conversation).is_some_and(|(key, _)| *key == self.key);
        let removed = is_this.then(|| all.running.remove(&self.conversation));
        drop(all);
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds tasks and never polls them.
    #[derive(Default)]
    struct NeverPolls(Mutex<Vec<BoxFuture<'static, ()>>>);

    impl std::fmt::Debug for NeverPolls {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("NeverPolls")
        }
    }

    impl Spawn for NeverPolls {
        fn spawn(&self, task: BoxFuture<'static, ()>) {
            self.0.lock().unwrap().push(task);
        }
    }

    #[tokio::test]
    async fn finished_summaries_are_removed_even_if_their_tasks_are_never_polled() {
        let (summaries, spawner) = (Arc::new(RunningSummaries::default()), NeverPolls::default());
        for number in 0..100 {
            let id = ConversationId::new(["running", &number.to_string()]).unwrap();
            let running = summaries.run(&id, &spawner, async { None }).unwrap_or_else(|running| running);
            assert_eq!(summaries.len(), 1);
            // A waiting call polls it.
            running.await;
            assert_eq!(summaries.len(), 0, "after {number}");
        }
    }

    #[tokio::test]
    async fn a_summary_that_panics_is_removed() {
        let (summaries, spawner) = (Arc::new(RunningSummaries::default()), NeverPolls::default());
        let id = ConversationId::new(["running"]).unwrap();
        let running = summaries.run(&id, &spawner, async { panic!("no summary") }).unwrap_or_else(|running| running);
        assert!(running.await.is_none());
        assert_eq!(summaries.len(), 0);
    }
}

//! The summaries that are being made in this process: one a conversation.

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

use crate::{Engine, spawn::spawn_guarded, summary::SummaryReport};

pub(super) type Running = Shared<BoxFuture<'static, Option<Arc<SummaryReport>>>>;

/// The summaries that are being made, one a conversation.
///
/// Each removes itself when it is made, whoever drives it: its task may lie in a runtime that is not driven.
#[derive(Default)]
pub(in crate::engine) struct Summarizing(Mutex<All>);

#[derive(Default)]
struct All {
    by_conversation: HashMap<ConversationId, (u64, Running)>,
    next_key: u64,
}

impl Engine {
    /// Begins a summary and hands it to the spawner, so that it is made whoever waits for it; `Err` is the one of the
    /// conversation that is under way already.
    pub(super) fn run(
        &self,
        conversation: &ConversationId,
        work: impl Future<Output = Option<Arc<SummaryReport>>> + Send + 'static,
    ) -> Result<Running, Running> {
        let summarizing = &self.shared.summarizing;
        let mut all = summarizing.lock();
        if let Some((_, running)) = all.by_conversation.get(conversation) {
            return Err(running.clone());
        }
        let key = all.next_key;
        all.next_key += 1;
        let entry = || Entry { summarizing: Arc::downgrade(summarizing), conversation: conversation.clone(), key };
        let (of_work, of_task) = (entry(), entry());
        let work = async move {
            let _entry = of_work;
            AssertUnwindSafe(work).catch_unwind().await.ok().flatten()
        };
        let running = work.boxed().shared();
        all.by_conversation.insert(conversation.clone(), (key, running.clone()));
        drop(all);
        let driven = running.clone();
        let task = async move {
            // Where the task is dropped with its runtime, the summary is given up: it can be made again.
            let _entry = of_task;
            driven.await;
        };
        spawn_guarded(&*self.options().spawn, task.boxed());
        Ok(running)
    }
}

impl Summarizing {
    /// Returns how many are under way.
    pub(in crate::engine) fn len(&self) -> usize {
        self.lock().by_conversation.len()
    }

    /// Finishes all of them.
    pub(in crate::engine) async fn drained(&self) {
        loop {
            let running: Vec<Running> =
                self.lock().by_conversation.values().map(|(_, running)| running.clone()).collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a summary from those under way: when it is made, or when its task is dropped.
struct Entry {
    summarizing: Weak<Summarizing>,
    conversation: ConversationId,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(summarizing) = self.summarizing.upgrade() else { return };
        let mut all = summarizing.lock();
        // The next summary of the conversation may have begun since this one was made.
        let is_this = all.by_conversation.get(&self.conversation).is_some_and(|(key, _)| *key == self.key);
        let removed = is_this.then(|| all.by_conversation.remove(&self.conversation));
        drop(all);
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryOptions, MemoryStore, Spawn};

    /// Keeps tasks and never drives them.
    #[derive(Default)]
    struct Idle(Mutex<Vec<BoxFuture<'static, ()>>>);

    impl std::fmt::Debug for Idle {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Idle")
        }
    }

    impl Spawn for Idle {
        fn spawn(&self, task: BoxFuture<'static, ()>) {
            self.0.lock().unwrap().push(task);
        }
    }

    /// Tells how many summaries are kept, under way or not.
    fn kept(engine: &Engine) -> usize {
        engine.shared.summarizing.lock().by_conversation.len()
    }

    #[tokio::test]
    async fn what_is_made_is_not_kept_for_a_task_that_nobody_drives() {
        let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().spawn(Idle::default()));
        for number in 0..100 {
            let id = ConversationId::new(["running", &number.to_string()]).unwrap();
            let running = engine.run(&id, async { None }).unwrap_or_else(|running| running);
            assert_eq!(kept(&engine), 1);
            // A call that waits drives it.
            running.await;
            assert_eq!(kept(&engine), 0, "after {number}");
        }
    }

    #[tokio::test]
    async fn one_that_panics_is_not_kept_either() {
        let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().spawn(Idle::default()));
        let id = ConversationId::new(["running"]).unwrap();
        let running = engine.run(&id, async { panic!("no summary") }).unwrap_or_else(|running| running);
        assert!(running.await.is_none());
        assert_eq!(kept(&engine), 0);
    }
}

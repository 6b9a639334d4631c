//! Work that runs in the background, at most one piece for each conversation.

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

use crate::spawn::{Spawn, spawn_guarded};

/// Work in progress. Its output is `None` if it panicked.
pub(super) type Running<T> = Shared<BoxFuture<'static, Option<T>>>;

/// The running work of one kind, such as summaries: at most one piece for each conversation.
///
/// Work removes itself when it is done, even if a waiting call polled it to its end instead of its task, whose runtime
/// may have shut down.
pub(super) struct RunningWork<T>(Mutex<ByConversation<T>>);

struct ByConversation<T> {
    running: HashMap<ConversationId, (u64, Running<T>)>,
    next_key: u64,
}

impl<T> Default for RunningWork<T> {
    fn default() -> Self {
        Self(Mutex::new(ByConversation { running: HashMap::new(), next_key: 0 }))
    }
}

impl<T: Clone + Send + Sync + 'static> RunningWork<T> {
    /// Begins work and passes it to the spawner, so that it finishes even if no call waits for it. If the conversation
    /// already has running work, returns that one as `Err`.
    pub(super) fn run(
        self: &Arc<Self>,
        conversation: &ConversationId,
        spawner: &dyn Spawn,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Result<Running<T>, Running<T>> {
        let all = self.lock();
        if let Some((_, running)) = all.running.get(conversation) {
            return Err(running.clone());
        }
        Ok(self.begin(all, conversation, spawner, work))
    }

    /// Begins work as [`run`](Self::run) does. If the conversation already has running work, the new work begins after
    /// it.
    pub(super) fn run_next(
        self: &Arc<Self>,
        conversation: &ConversationId,
        spawner: &dyn Spawn,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) {
        let all = self.lock();
        let before = all.running.get(conversation).map(|(_, running)| running.clone());
        let work = async move {
            if let Some(before) = before {
                before.await;
            }
            work.await
        };
        drop(self.begin(all, conversation, spawner, work));
    }

    /// Returns the conversation's running work.
    pub(super) fn get(&self, conversation: &ConversationId) -> Option<Running<T>> {
        self.lock().running.get(conversation).map(|(_, running)| running.clone())
    }

    /// Begins work, which is now the running work of the conversation.
    fn begin(
        self: &Arc<Self>,
        mut all: MutexGuard<'_, ByConversation<T>>,
        conversation: &ConversationId,
        spawner: &dyn Spawn,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Running<T> {
        let key = all.next_key;
        all.next_key += 1;
        let entry = || Entry { work: Arc::downgrade(self), conversation: conversation.clone(), key };
        let (of_work, of_task) = (entry(), entry());
        let work = async move {
            let _entry = of_work;
            AssertUnwindSafe(work).catch_unwind().await.ok().flatten()
        };
        let running = work.boxed().shared();
        let replaced = all.running.insert(conversation.clone(), (key, running.clone()));
        drop(all);
        drop(replaced);
        let driven = running.clone();
        let task = async move {
            // If the task is dropped with its runtime, the work is removed, so that it can be begun again.
            let _entry = of_task;
            driven.await;
        };
        spawn_guarded(spawner, task.boxed());
        running
    }

    /// Returns the number of conversations with running work.
    pub(super) fn len(&self) -> usize {
        self.lock().running.len()
    }

    /// Finishes all running work.
    pub(super) async fn drained(&self) {
        loop {
            let running: Vec<Running<T>> = self.lock().running.values().map(|(_, running)| running.clone()).collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
        }
    }
}

impl<T> RunningWork<T> {
    fn lock(&self) -> MutexGuard<'_, ByConversation<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes work from the running work when it is done, or when its task is dropped.
struct Entry<T> {
    work: Weak<RunningWork<T>>,
    conversation: ConversationId,
    key: u64,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.upgrade() else { return };
        let mut all = work.lock();
        // The conversation's next work may have begun since this one was done.
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
    async fn finished_work_is_removed_even_if_its_task_is_never_polled() {
        let (work, spawner) = (Arc::new(RunningWork::<()>::default()), NeverPolls::default());
        for number in 0..100 {
            let id = ConversationId::new(["running", &number.to_string()]).unwrap();
            let running = work.run(&id, &spawner, async { None }).unwrap_or_else(|running| running);
            assert_eq!(work.len(), 1);
            // A waiting call polls it.
            running.await;
            assert_eq!(work.len(), 0, "after {number}");
        }
    }

    #[tokio::test]
    async fn the_next_work_begins_after_the_running_one() {
        let (work, spawner) = (Arc::new(RunningWork::<()>::default()), NeverPolls::default());
        let id = ConversationId::new(["running"]).unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let done = Arc::clone(&done);
            work.run_next(&id, &spawner, async move {
                done.lock().unwrap().push(number);
                (number != 1).then_some(())
            });
        }
        assert_eq!((work.len(), done.lock().unwrap().len()), (1, 0));
        assert_eq!(work.get(&id).unwrap().await, Some(()));
        assert_eq!((work.len(), done.lock().unwrap().as_slice()), (0, [0, 1, 2].as_slice()));
    }

    #[tokio::test]
    async fn work_that_panics_is_removed() {
        let (work, spawner) = (Arc::new(RunningWork::<()>::default()), NeverPolls::default());
        let id = ConversationId::new(["running"]).unwrap();
        let running = work.run(&id, &spawner, async { panic!("no result") }).unwrap_or_else(|running| running);
        assert!(running.await.is_none());
        assert_eq!(work.len(), 0);
    }
}

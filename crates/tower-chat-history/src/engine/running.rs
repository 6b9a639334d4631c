//! Work that runs in the background, at most one piece for each conversation.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tower_chat_history_core::ConversationId;

/// The running work of one kind, such as summaries: at most one piece for each conversation.
pub(super) struct RunningWork<T> {
    /// The background tasks of the engine.
    tasks: TaskTracker,
    by_conversation: Mutex<ByConversation<T>>,
}

struct ByConversation<T> {
    running: HashMap<ConversationId, (u64, Running<T>)>,
    next_key: u64,
}

/// Work in progress.
pub(super) struct Running<T>(watch::Receiver<Option<T>>);

impl<T> Clone for Running<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Send + Sync> Running<T> {
    /// Waits for the output. Returns `None` if there is none, or if the work panicked.
    pub(super) async fn output(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|output| output.clone())
    }
}

impl<T: Clone + Send + Sync + 'static> RunningWork<T> {
    pub(super) fn new(tasks: TaskTracker) -> Self {
        let by_conversation = Mutex::new(ByConversation { running: HashMap::new(), next_key: 0 });
        Self { tasks, by_conversation }
    }

    /// Begins work in a task of its own, so that it finishes even if no call waits for it. If the conversation already
    /// has running work, returns that one as `Err`.
    pub(super) fn run(
        self: &Arc<Self>,
        conversation: &ConversationId,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Result<Running<T>, Running<T>> {
        let all = self.lock();
        if let Some((_, running)) = all.running.get(conversation) {
            return Err(running.clone());
        }
        Ok(self.begin(all, conversation, work))
    }

    /// Begins work as [`run`](Self::run) does. If the conversation already has running work, the new work begins after
    /// it.
    pub(super) fn run_next(
        self: &Arc<Self>,
        conversation: &ConversationId,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) {
        let all = self.lock();
        let before = all.running.get(conversation).map(|(_, running)| running.clone());
        let work = async move {
            if let Some(before) = before {
                before.output().await;
            }
            work.await
        };
        self.begin(all, conversation, work);
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
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Running<T> {
        let key = all.next_key;
        all.next_key += 1;
        let (output, running) = watch::channel(None);
        let running = Running(running);
        all.running.insert(conversation.clone(), (key, running.clone()));
        drop(all);

        let entry = Entry { all: Arc::clone(self), conversation: conversation.clone(), key };
        self.tasks.spawn(async move {
            let made = work.await;
            // The next call must find that it is done.
            drop(entry);
            output.send_replace(made);
        });
        running
    }

    /// Returns the number of conversations with running work.
    pub(super) fn len(&self) -> usize {
        self.lock().running.len()
    }
}

impl<T> RunningWork<T> {
    fn lock(&self) -> MutexGuard<'_, ByConversation<T>> {
        self.by_conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes work from the running work when it is done, when it panics, or when its runtime ends.
struct Entry<T> {
    all: Arc<RunningWork<T>>,
    conversation: ConversationId,
    key: u64,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // The conversation's next work may have begun already.
        if all.running.get(&self.conversation).is_some_and(|(key, _)| *key == self.key) {
            all.running.remove(&self.conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> (Arc<RunningWork<()>>, ConversationId) {
        (Arc::new(RunningWork::new(TaskTracker::new())), ConversationId::new(["running"]).unwrap())
    }

    #[tokio::test]
    async fn finished_work_is_removed() {
        let (work, id) = work();
        for number in 0..100 {
            let running = work.run(&id, async { None }).unwrap_or_else(|running| running);
            assert_eq!(work.len(), 1);
            assert_eq!(running.output().await, None);
            assert_eq!(work.len(), 0, "after {number}");
        }
    }

    #[tokio::test]
    async fn the_next_work_begins_after_the_running_one() {
        let (work, id) = work();
        let done = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let done = Arc::clone(&done);
            work.run_next(&id, async move {
                done.lock().unwrap().push(number);
                (number != 1).then_some(())
            });
        }
        assert_eq!((work.len(), done.lock().unwrap().len()), (1, 0));
        assert_eq!(work.get(&id).unwrap().output().await, Some(()));
        assert_eq!((work.len(), done.lock().unwrap().as_slice()), (0, [0, 1, 2].as_slice()));
    }

    #[tokio::test]
    async fn work_that_panics_is_removed_and_has_no_output() {
        let (work, id) = work();
        let running = work.run(&id, async { panic!("no result") }).unwrap_or_else(|running| running);
        assert_eq!(running.output().await, None);
        assert_eq!(work.len(), 0);
    }
}

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

use crate::{
    spawn::{Spawn, spawn_guarded},
    summary::SummaryReport,
};

pub(super) type Running = Shared<BoxFuture<'static, Option<Arc<SummaryReport>>>>;

/// The summaries that are being made, one a conversation.
///
/// One that is done counts as absent: its task, which removes it, may lie in a runtime that is not driven.
#[derive(Default)]
pub(super) struct RunningSummaries(Mutex<HashMap<ConversationId, Running>>);

impl RunningSummaries {
    /// Begins a summary and hands it to the spawner, so that it is made whoever waits for it; `Err` is the one of the
    /// conversation that is under way already.
    pub(super) fn run(
        self: &Arc<Self>,
        conversation: &ConversationId,
        spawner: &dyn Spawn,
        work: impl Future<Output = Option<Arc<SummaryReport>>> + Send + 'static,
    ) -> Result<Running, Running> {
        let mut all = self.lock();
        if let Some(running) = all.get(conversation).filter(|running| !is_done(running)) {
            return Err(running.clone());
        }
        let running = AssertUnwindSafe(work).catch_unwind().map(|made| made.ok().flatten()).boxed().shared();
        let done = all.insert(conversation.clone(), running.clone());
        drop(all);
        drop(done);
        // Where the task is dropped with its runtime, the summary is given up: it can be made again.
        let entry =
            Entry { summaries: Arc::downgrade(self), conversation: conversation.clone(), running: running.clone() };
        let task = async move { entry.running.clone().map(drop).await };
        spawn_guarded(spawner, task.boxed());
        Ok(running)
    }

    /// Returns how many are under way.
    pub(super) fn len(&self) -> usize {
        self.lock().values().filter(|running| !is_done(running)).count()
    }

    /// Finishes all of them.
    pub(super) async fn drained(&self) {
        loop {
            let done: Vec<Running> = {
                let mut all = self.lock();
                all.extract_if(|_, running| is_done(running)).map(|(_, running)| running).collect()
            };
            drop(done);
            let running: Vec<Running> = self.lock().values().cloned().collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_done(running: &Running) -> bool {
    running.peek().is_some()
}

/// Removes a summary from those under way when its task ends.
struct Entry {
    summaries: Weak<RunningSummaries>,
    conversation: ConversationId,
    running: Running,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(summaries) = self.summaries.upgrade() else { return };
        let mut all = summaries.lock();
        // The next summary of the conversation may have begun since this one was done.
        let is_this = all.get(&self.conversation).is_some_and(|running| running.ptr_eq(&self.running));
        let removed = is_this.then(|| all.remove(&self.conversation));
        drop(all);
        drop(removed);
    }
}

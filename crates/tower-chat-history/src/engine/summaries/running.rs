//! The summaries that are being made in this process: one a conversation.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, Shared},
};
use tower_chat_history_core::ConversationId;

use crate::{Engine, summary::SummaryReport};

pub(super) type Running = Shared<BoxFuture<'static, Option<Arc<SummaryReport>>>>;

#[derive(Default)]
pub(in crate::engine) struct Summarizing(Mutex<HashMap<ConversationId, Running>>);

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
        if let Some(running) = all.get(conversation) {
            return Err(running.clone());
        }
        let running = AssertUnwindSafe(work).catch_unwind().map(|made| made.ok().flatten()).boxed().shared();
        all.insert(conversation.clone(), running.clone());
        drop(all);
        // Where the task is dropped with its runtime, the summary is given up: it can be made again.
        let entry = Entry { summarizing: Arc::downgrade(summarizing), conversation: conversation.clone() };
        let task = {
            let running = running.clone();
            async move {
                let _entry = entry;
                running.await;
            }
        };
        let spawn = &self.options().spawn;
        if catch_unwind(AssertUnwindSafe(|| spawn.spawn(task.boxed()))).is_err() {
            tracing::error!("the spawner panicked; a summary is not made");
        }
        Ok(running)
    }
}

impl Summarizing {
    /// How many are under way.
    pub(in crate::engine) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Finishes all of them.
    pub(in crate::engine) async fn drained(&self) {
        loop {
            let running: Vec<Running> = self.lock().values().cloned().collect();
            if running.is_empty() {
                return;
            }
            future::join_all(running).await;
            // What is done is removed by its task.
            tokio::task::yield_now().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a summary from those under way when its task ends.
struct Entry {
    summarizing: Weak<Summarizing>,
    conversation: ConversationId,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(summarizing) = self.summarizing.upgrade() else { return };
        let removed = summarizing.lock().remove(&self.conversation);
        drop(removed);
    }
}

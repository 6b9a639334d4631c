//! Saving a complete reply.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::Turn;
use crate::{
    call::Reply,
    error::Unsaved,
    report::{TurnOutcome, TurnReport},
};

/// The save of one exchange. It runs once, and each holder of a clone can poll it.
pub(super) type Save = Shared<BoxFuture<'static, Arc<TurnReport>>>;

/// A save in progress.
///
/// The save does not depend on the caller. While the caller polls the `Commit`, the save runs in the caller's task, and
/// nothing is spawned. If the `Commit` is dropped before it completes, polled or not, a task does the rest of the save,
/// in the runtime in which the turn began. [Drain](crate::Engine::drain) the engine before that runtime shuts down.
///
/// It resolves to the turn's report, or to the error [`Unsaved`], which contains the reply. If there is nothing to
/// store, because the reply has no message or the caller disabled storing, it resolves to the report (see
/// [`TurnOutcome`]).
#[must_use = "futures do nothing unless polled; dropping a commit makes it a task"]
pub struct Commit {
    save: Save,
    reply: Arc<Mutex<Reply>>,
    tasks: TaskTracker,
    runtime: Handle,
}

impl Commit {
    pub(super) fn new(turn: Turn, reply: Reply) -> Self {
        let engine = turn.engine().clone();
        let runtime = turn.runtime().clone();
        let conversation = turn.conversation().clone();
        let reply = Arc::new(Mutex::new(reply));
        let latest = Arc::clone(&reply);
        // The first poll reads the reply. Until then, a stream can add the usage that comes after its last choice.
        let work = async move {
            let reply = lock(&latest).clone();
            // Boxed, because a large future would be moved several times before it is polled.
            Box::pin(turn.save(reply)).await
        };
        let save = engine.shared.in_flight.register(conversation, work);
        Self { save, reply, tasks: engine.shared.tasks.clone(), runtime }
    }

    /// Returns the reply so far.
    pub(crate) fn reply(&self) -> Reply {
        lock(&self.reply).clone()
    }

    /// Replaces the reply with a more complete one. After the first poll, this has no effect, because the save has
    /// begun.
    pub(crate) fn update(&self, reply: Reply) {
        *lock(&self.reply) = reply;
    }
}

fn lock(reply: &Mutex<Reply>) -> MutexGuard<'_, Reply> {
    reply.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Future for Commit {
    type Output = Result<Arc<TurnReport>, Unsaved<Reply>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let report = std::task::ready!(self.save.poll_unpin(context));
        Poll::Ready(match &report.outcome {
            TurnOutcome::Failed(error) => Err(Unsaved::new(self.reply(), Arc::clone(error))),
            TurnOutcome::Stored { .. } | TurnOutcome::Duplicate { .. } | TurnOutcome::NotStored(_) => Ok(report),
        })
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        // After this handle has returned its result, it has no strong count. If another clone has, `peek` returns the
        // result.
        let done = self.save.strong_count().is_none() || self.save.peek().is_some();
        if !done {
            self.tasks.spawn_on(self.save.clone(), &self.runtime);
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}

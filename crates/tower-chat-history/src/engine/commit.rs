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

use super::Turn;
use crate::{
    call::Reply,
    error::{SaveError, Unsaved},
    report::{Outcome, TurnReport},
    spawn::{Spawn, spawn_guarded},
};

/// The save of one exchange. It runs once, and each holder of a clone can poll it.
pub(super) type Save = Shared<BoxFuture<'static, Arc<TurnReport>>>;

/// A save in progress.
///
/// The save does not depend on the caller. While the caller polls the `Commit`, the save runs in the caller's task, and
/// nothing is spawned. If the `Commit` is dropped before it completes, polled or not, the [spawner](Spawn) runs the
/// rest of the save.
///
/// It resolves to the turn's report, or to the error [`Unsaved`], which contains the reply. If there is nothing to
/// store, because the reply has no message or the caller disabled storing, it resolves to the report (see
/// [`Outcome`]).
#[must_use = "futures do nothing unless polled; dropping a commit hands it to the spawner"]
pub struct Commit {
    save: Save,
    reply: Arc<Mutex<Reply>>,
    spawn: Arc<dyn Spawn>,
}

impl Commit {
    pub(super) fn new(turn: Turn, reply: Reply) -> Self {
        let engine = turn.engine().clone();
        let reply = Arc::new(Mutex::new(reply));
        let panicked = Arc::new(turn.report_of(Outcome::Failed(Arc::new(SaveError::Panicked))));
        let latest = Arc::clone(&reply);
        // The first poll reads the reply. Until then, a stream can add the usage that comes after its last choice.
        let work = async move {
            let reply = lock(&latest).clone();
            // Boxed, because a large future would be moved several times before it is polled.
            Box::pin(turn.save(reply)).await
        };
        let save = engine.shared.in_flight.register(panicked, work);
        Self { save, reply, spawn: Arc::clone(&engine.options().spawn) }
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
            Outcome::Failed(error) => Err(Unsaved::new(self.reply(), Arc::clone(error))),
            Outcome::Stored { .. } | Outcome::Duplicate { .. } | Outcome::NotStored(_) => Ok(report),
        })
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        // After this handle has returned its result, it has no strong count. If another clone has, `peek` returns the
        // result.
        let done = self.save.strong_count().is_none() || self.save.peek().is_some();
        if !done {
            spawn_guarded(&*self.spawn, self.save.clone().map(drop).boxed());
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}

//! A reply that is complete and on its way into the store.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};

use super::{Engine, Reply, Turn};
use crate::{Outcome, SaveError, Spawn, TurnReport};

/// The save of one exchange. Whoever holds a clone can drive it; it runs once.
pub(super) type Save = Shared<BoxFuture<'static, Arc<TurnReport>>>;

/// A save in progress, polled in place.
///
/// Nothing is spawned as long as the caller stays. If this is dropped before it is done, it hands the save to the
/// [spawner](Spawn): the reply is paid for and will be stored. It resolves to the turn's report.
#[must_use = "futures do nothing unless polled; dropping a commit hands it to the spawner"]
pub struct Commit {
    save: Save,
    reply: Arc<Mutex<Reply>>,
    spawn: Arc<dyn Spawn>,
    done: bool,
}

impl Commit {
    pub(super) fn new(engine: &Engine, turn: Turn, reply: Reply) -> Self {
        let reply = Arc::new(Mutex::new(reply));
        let panicked = turn.report_of(Outcome::Failed(Arc::new(SaveError::Panicked)));
        let taken = Arc::clone(&reply);
        // The reply is taken at the first poll, so a stream can still add the usage that comes after its last choice.
        let work = async move {
            let reply = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
            turn.save(reply).await
        };
        let save = engine.shared.in_flight.register(panicked, work);
        Self { save, reply, spawn: Arc::clone(&engine.options().spawn), done: false }
    }

    /// Replaces the reply by a fuller one, if the save has not begun.
    pub(crate) fn update(&self, reply: Reply) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }
}

impl Future for Commit {
    type Output = Arc<TurnReport>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let report = std::task::ready!(self.save.poll_unpin(context));
        self.done = true;
        Poll::Ready(report)
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if !self.done {
            self.spawn.spawn(self.save.clone().map(drop).boxed());
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").field("done", &self.done).finish_non_exhaustive()
    }
}

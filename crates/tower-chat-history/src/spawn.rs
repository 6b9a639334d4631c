//! Where work goes on when its caller has left.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Runs the rest of a save, or of a detached stream, after its caller dropped it.
///
/// The engine itself counts what it hands over and can [drain](crate::Engine::drain) it; a spawner only has to poll it. A
/// save that is dropped unfinished (its runtime was shut down) is not lost yet: draining, or the conversation's next turn,
/// finishes it.
pub trait Spawn: fmt::Debug + Send + Sync {
    /// Polls the task to its end.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Spawns on the tokio runtime that the caller is dropped in; outside of one, on the one kept here.
#[derive(Clone, Debug)]
pub struct TokioSpawn(Option<Handle>);

impl TokioSpawn {
    /// Keeps the runtime this is called in, if any. Where there is neither this one nor another, a save waits for the
    /// conversation's next turn or for draining.
    #[must_use]
    pub fn current() -> Self {
        Self(Handle::try_current().ok())
    }
}

impl From<Handle> for TokioSpawn {
    fn from(handle: Handle) -> Self {
        Self(Some(handle))
    }
}

impl Spawn for TokioSpawn {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some(handle) = Handle::try_current().ok().or_else(|| self.0.clone()) {
            handle.spawn(task);
        }
    }
}

/// Hands a task to a spawner, which may be user code that panics: this may run in a drop. The task is then dropped.
pub(crate) fn spawn_guarded(spawner: &dyn Spawn, task: BoxFuture<'static, ()>) {
    if catch_unwind(AssertUnwindSafe(|| spawner.spawn(task))).is_err() {
        tracing::error!(
            "the spawner panicked; what it was given is done by a later call or by draining, or not at all"
        );
    }
}

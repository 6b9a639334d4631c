//! Running work that continues after its caller has left.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Runs the rest of a save, or of a detached stream, after its caller has dropped it. It also runs summaries.
///
/// A spawner only has to poll its tasks: the engine itself counts them and can [drain](crate::Engine::drain) them. If
/// the task of a save is dropped before it is done, for example because its runtime shuts down, the save is not lost:
/// a drain, or the conversation's next turn, finishes it.
pub trait Spawn: fmt::Debug + Send + Sync {
    /// Polls the task until it completes.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Spawns tasks on the current tokio runtime. Outside of a runtime, it uses the one that it was created with.
#[derive(Clone, Debug)]
pub struct TokioSpawn(Option<Handle>);

impl TokioSpawn {
    /// Creates a spawner with the current runtime, if there is one. If there is no runtime at the time of a spawn
    /// either, a save waits for the conversation's next turn or for a drain.
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

/// Hands a task to a spawner, and catches panics: the spawner may be user code, and this may run in a drop. After a
/// panic, the task is dropped.
pub(crate) fn spawn_guarded(spawner: &dyn Spawn, task: BoxFuture<'static, ()>) {
    if catch_unwind(AssertUnwindSafe(|| spawner.spawn(task))).is_err() {
        tracing::error!("the spawner panicked; its task runs only if a later call or a drain finishes it");
    }
}

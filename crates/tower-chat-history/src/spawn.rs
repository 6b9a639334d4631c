//! Running work in the background.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Runs tasks in the background: summaries, and saves and detached streams whose callers have left.
///
/// A spawner only has to poll its tasks. The engine counts them, and [`Engine::drain`](crate::Engine::drain) waits
/// for them. If the task of a save is dropped before it completes, for example because its runtime shuts down, the
/// save is not lost: a drain, or the conversation's next turn, finishes it.
pub trait Spawn: fmt::Debug + Send + Sync {
    /// Polls the task until it completes.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Spawns tasks on the tokio runtime in which it is called. Outside of a runtime, spawns them on the runtime in which
/// it was created.
#[derive(Clone, Debug)]
pub struct TokioSpawn(Option<Handle>);

impl TokioSpawn {
    /// Creates a spawner, and stores the handle of the current tokio runtime, if there is one. If there is no runtime
    /// at the time of a spawn either, the task is dropped: the conversation's next turn or a drain then finishes the
    /// save.
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

/// Passes a task to a spawner, and catches the spawner's panics: it may be user code, and this function may run in a
/// `drop`. After a panic, the task is dropped.
pub(crate) fn spawn_guarded(spawner: &dyn Spawn, task: BoxFuture<'static, ()>) {
    if catch_unwind(AssertUnwindSafe(|| spawner.spawn(task))).is_err() {
        tracing::error!(
            "the spawner panicked and dropped its task; if it was a save, a later call or a drain finishes it"
        );
    }
}

//! Commits, and the pending saves of an engine.
//!
//! # Decisions
//!
//! - **Anybody may finish a save.** The caller's poll drives it until the caller leaves, and a task does the rest. The
//!   conversation's next call and a drain can finish it as well, because a caller may stop reading a stream whose reply
//!   is complete. Polling a save costs 0.8 µs, and spawning it 45 µs.
//! - **Saves need tokio.** They need time limits, and must finish if their callers leave. A program knows when its
//!   runtime ends, so it can drain the engine before.

use std::{
    collections::{HashMap, hash_map},
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
};

use futures_util::future::{self, BoxFuture, FutureExt, Shared};
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::task::TaskTracker;
use tower_chat_history_core::ConversationId;

use crate::{
    call::Reply,
    error::Unsaved,
    report::{TurnOutcome, TurnReport},
    telemetry::Recorder,
};

/// The save of one exchange. It runs once, and each holder of a clone can poll it.
type Save = Shared<BoxFuture<'static, Arc<TurnReport>>>;

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
    /// Registers the save of a reply. `save` stores the reply as it is when the save is first polled: until then, a
    /// stream can add the usage that comes after its last choice.
    pub(super) fn new<F>(
        in_flight: &Arc<InFlight>,
        runtime: Handle,
        conversation: ConversationId,
        reply: Reply,
        save: impl FnOnce(Reply) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Arc<TurnReport>> + Send + 'static,
    {
        let reply = Arc::new(Mutex::new(reply));
        let latest = Arc::clone(&reply);
        let work = async move {
            let reply = lock(&latest).clone();
            // Boxed, because a large future would be moved several times before it is polled.
            Box::pin(save(reply)).await
        };
        let save = in_flight.register(conversation, work);
        Self { save, reply, tasks: in_flight.tasks.clone(), runtime }
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

/// The pending saves of an engine, by conversation.
///
/// A save stays here until it is done. If nobody polls it, because its stream is kept but not read, the conversation's
/// next turn or a drain finishes it.
pub(super) struct InFlight {
    recorder: Recorder,
    /// The background tasks of the engine.
    tasks: TaskTracker,
    saves: Mutex<Saves>,
    /// Notified when a save is registered, and when one ends.
    changed: Notify,
}

#[derive(Default)]
struct Saves {
    next_key: u64,
    by_conversation: HashMap<ConversationId, Vec<(u64, Save)>>,
}

impl InFlight {
    pub(super) fn new(recorder: Recorder, tasks: TaskTracker) -> Self {
        Self { recorder, tasks, saves: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a save, which removes itself when it is done.
    fn register(
        self: &Arc<Self>,
        conversation: ConversationId,
        work: impl Future<Output = Arc<TurnReport>> + Send + 'static,
    ) -> Save {
        let mut saves = self.lock();
        let key = saves.next_key;
        saves.next_key += 1;
        // A strong reference would be a cycle: this map owns the save, and the save owns its entry.
        let entry = Entry { in_flight: Arc::downgrade(self), conversation: conversation.clone(), key };
        let work = async move {
            let _entry = entry;
            work.await
        };
        let save = FutureExt::shared(work.boxed());
        saves.by_conversation.entry(conversation).or_default().push((key, save.clone()));
        drop(saves);
        self.recorder.pending(1);
        self.changed.notify_waiters();
        save
    }

    /// Finishes the saves of the conversation that are pending now. It does not wait for later ones, because on a busy
    /// conversation it might never return.
    pub(super) async fn saved(&self, conversation: &ConversationId) {
        future::join_all(self.of(conversation)).await;
    }

    /// Finishes the conversation's pending saves and all that are registered later. Never resolves: the caller drops
    /// the future.
    pub(super) async fn keep_saving(&self, conversation: &ConversationId) -> std::convert::Infallible {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // The notification is enabled before the saves are read. Otherwise a save that is registered in between
            // would be missed.
            changed.as_mut().enable();
            self.saved(conversation).await;
            changed.await;
        }
    }

    /// Finishes all saves that are pending now.
    pub(super) async fn all_saved(&self) {
        let all: Vec<Save> = self.lock().by_conversation.values().flatten().map(|(_, save)| save.clone()).collect();
        future::join_all(all).await;
    }

    /// Returns `true` if a save of the conversation is pending.
    pub(super) fn has(&self, conversation: &ConversationId) -> bool {
        self.lock().by_conversation.contains_key(conversation)
    }

    pub(super) fn saves(&self) -> usize {
        self.lock().by_conversation.values().map(Vec::len).sum()
    }

    fn of(&self, conversation: &ConversationId) -> Vec<Save> {
        let saves = self.lock();
        saves.by_conversation.get(conversation).into_iter().flatten().map(|(_, save)| save.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Saves> {
        // No code panics between two changes of the map, so a poisoned map is still consistent.
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a save from the pending ones when it is done.
struct Entry {
    in_flight: Weak<InFlight>,
    conversation: ConversationId,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(in_flight) = self.in_flight.upgrade() else { return };
        let mut saves = in_flight.lock();
        let mut removed = None;
        if let hash_map::Entry::Occupied(mut entry) = saves.by_conversation.entry(self.conversation.clone()) {
            let pending = entry.get_mut();
            removed = pending.iter().position(|(key, _)| *key == self.key).map(|at| pending.swap_remove(at));
            if pending.is_empty() {
                entry.remove();
            }
        }
        drop(saves);
        if removed.is_some() {
            in_flight.recorder.pending(-1);
        }
        drop(removed);
        in_flight.changed.notify_waiters();
    }
}

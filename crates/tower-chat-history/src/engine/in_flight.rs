//! The pending saves and detached streams of an engine.

use std::{
    collections::{HashMap, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::future::{self, FutureExt};
use tokio::sync::Notify;
use tower_chat_history_core::ConversationId;

use super::commit::Save;
use crate::{policy::DetachLimits, report::TurnReport, telemetry::Recorder};

/// The pending saves of an engine by conversation, and the number of its detached streams.
///
/// A save stays here until it is done. If nobody polls it, because its stream is kept but not read, the conversation's
/// next turn or a drain finishes it.
pub(super) struct InFlight {
    recorder: Recorder,
    saves: Mutex<Saves>,
    streams: Mutex<Streams>,
    /// Notified when a save is registered, and when one ends.
    changed: Notify,
}

#[derive(Default)]
struct Saves {
    next_key: u64,
    by_conversation: HashMap<ConversationId, Vec<(u64, Save)>>,
}

/// The numbers of detached streams: in total, and per conversation.
#[derive(Default)]
struct Streams {
    all: usize,
    by_conversation: HashMap<ConversationId, usize>,
}

impl InFlight {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, saves: Mutex::default(), streams: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a save, which removes itself when it is done.
    pub(super) fn register(
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

    pub(super) fn streams(&self) -> usize {
        self.lock_streams().all
    }

    /// Counts a detached stream until the returned guard is dropped. Returns `None` if a limit is already reached.
    pub(super) fn detached(self: &Arc<Self>, conversation: &ConversationId, limits: DetachLimits) -> Option<Detached> {
        let mut streams = self.lock_streams();
        let of_conversation = streams.by_conversation.get(conversation).copied().unwrap_or_default();
        if streams.all >= limits.max_streams || of_conversation >= limits.max_per_conversation {
            return None;
        }
        streams.all += 1;
        streams.by_conversation.insert(conversation.clone(), of_conversation + 1);
        Some(Detached { in_flight: Arc::clone(self), conversation: conversation.clone() })
    }

    fn lock_streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Counts one detached stream while it lives.
pub(super) struct Detached {
    in_flight: Arc<InFlight>,
    conversation: ConversationId,
}

impl Drop for Detached {
    fn drop(&mut self) {
        let mut streams = self.in_flight.lock_streams();
        streams.all = streams.all.saturating_sub(1);
        if let Some(of_conversation) = streams.by_conversation.get_mut(&self.conversation) {
            *of_conversation = of_conversation.saturating_sub(1);
            if *of_conversation == 0 {
                streams.by_conversation.remove(&self.conversation);
            }
        }
    }
}

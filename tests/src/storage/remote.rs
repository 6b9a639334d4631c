//! A wrapper that stops a paused clock while a call runs.

use std::sync::mpsc;

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Derived, Fork, ForkTo, Forked, Incarnation, Load, Loaded, Page,
        Prune, PruneTo, Pruned, Revision, Seq, Truncate, Truncated,
    },
};

/// A store whose calls take real time, as if over a network.
///
/// A paused clock jumps ahead whenever its runtime is idle, and a runtime that waits for the threads of a
/// store is idle. This wrapper therefore stops the clock while a call runs.
#[derive(Debug)]
pub struct Remote<S>(pub S);

/// Runs a call, and holds a paused clock until it ends.
pub(super) async fn with_clock_held<T: Send>(call: impl Future<Output = T> + Send) -> T {
    // A paused clock does not advance while a blocking task runs.
    let (_done, running) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || running.recv());
    tokio::task::yield_now().await;
    let answer = call.await;
    tokio::task::yield_now().await;
    answer
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for Remote<S> {
    fn system(&self) -> &'static str {
        self.0.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        with_clock_held(self.0.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        with_clock_held(self.0.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        with_clock_held(self.0.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        with_clock_held(self.0.read(id, from, limit)).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        with_clock_held(self.0.delete(id)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for Remote<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        with_clock_held(self.0.truncate(id, expect, from, keep)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for Remote<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        with_clock_held(self.0.prune(id, incarnation, keep, derived)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Fork> Fork for Remote<S> {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        with_clock_held(self.0.fork(id, incarnation, to)).await
    }
}

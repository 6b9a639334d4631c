//! Summarizing exchanges that leave the window: after the reply, or before a call.

mod after;
mod backoff;
mod before;
mod job;
mod running;

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, CompactOutcome, CompactionError, CompactionVersion, ConversationId, Cut, Seq, StoreError, Window,
};

pub(super) use self::{after::FinishedTurn, job::Job};
use self::{
    backoff::SummaryBackoff,
    job::PAGE,
    running::{Running, RunningSummaries},
};
use super::store::BoundedStore;
use crate::summary::{Summaries, SummaryReport};

/// Makes an engine's summaries, one at a time per conversation. A clone shares the running summaries.
#[derive(Clone)]
pub(super) struct SummaryWorker {
    store: BoundedStore,
    summaries: Summaries,
    running: Arc<RunningSummaries>,
    backoff: Arc<SummaryBackoff>,
}

impl SummaryWorker {
    pub(super) fn new(store: BoundedStore, summaries: Summaries) -> Self {
        Self { store, summaries, running: Arc::default(), backoff: Arc::default() }
    }

    /// Returns the number of running summaries.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Finishes all running summaries.
    pub(super) async fn drained(&self) {
        self.running.drained().await;
    }

    fn run(
        &self,
        conversation: &ConversationId,
        work: impl Future<Output = Option<Arc<SummaryReport>>> + Send + 'static,
    ) -> Result<Running, Running> {
        self.running.run(conversation, &*self.store.options().spawn, work)
    }

    /// Stores a pending summary whose exchange was stored without it, because another compaction was stored first.
    /// Returns the cut that it is stored with.
    pub(super) async fn store_pending(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        pending: Cut,
    ) -> Option<Cut> {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return None;
        }
        // It replaces no particular version: the summary is merged into the compaction that is stored by now.
        let (incarnation, none) = (stored.revision.incarnation(), CompactionVersion::NONE);
        let mut cut = pending;
        let mut result = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        if let Err(StoreError::Compaction(CompactionError::NotAnOpening { seq })) = result {
            // Tool results of an earlier turn were stored at the position where the window was to start. The window
            // starts after them instead, and the next summary covers them.
            cut.window_start = self.opening_after(conversation, seq, stored.seq).await;
            result = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        }
        match result {
            Ok(is_stored) => is_stored.then_some(cut),
            Err(error) => {
                tracing::warn!(error.type = error.kind(), error = %error, "a summary could not be stored");
                None
            }
        }
    }

    /// Returns the position of the first exchange after `seq` that opens a turn, or else `last`, which opens one too.
    async fn opening_after(&self, conversation: &ConversationId, seq: Seq, last: Seq) -> Seq {
        let Ok(page) = self.store.read_bounded(conversation, seq, PAGE).await else { return last };
        let mut openings = page.exchanges.iter().filter(|recorded| recorded.exchange.opens_turn());
        openings.find(|recorded| recorded.seq > seq).map_or(last, |opening| opening.seq.min(last))
    }
}

/// Returns `true` if a cut's window starts at an exchange that is stored.
fn is_stored(cut: &Cut, window: &Window) -> bool {
    window.exchanges.last().is_some_and(|last| cut.window_start <= last.seq)
}

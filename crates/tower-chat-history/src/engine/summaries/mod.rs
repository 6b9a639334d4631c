//! Summarizing exchanges that leave the window: after the reply, or before a call.

mod after;
mod backoff;
mod before;
mod job;

use std::sync::Arc;

use tower_chat_history_core::{
    Appended, CompactOutcome, CompactionError, ConversationId, Cut, Seq, StoreError, Window,
};

pub(super) use self::{after::FinishedTurn, job::Job};
use self::{backoff::SummaryBackoff, job::PAGE};
use super::{
    running::{Running, RunningWork},
    store::BoundedStore,
};
use crate::summary::{Summaries, SummaryReport};

/// Makes an engine's summaries, one at a time per conversation. A clone shares the running summaries.
#[derive(Clone)]
pub(super) struct SummaryWorker {
    store: BoundedStore,
    summaries: Summaries,
    running: Arc<RunningWork<Arc<SummaryReport>>>,
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
    ) -> Result<Running<Arc<SummaryReport>>, Running<Arc<SummaryReport>>> {
        self.running.run(conversation, &*self.store.options().spawn, work)
    }

    /// Stores a pending summary on its own, if its exchange was stored without it because another compaction was
    /// stored first. Returns the cut that was stored, if one was.
    pub(super) async fn store_pending(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        pending: Cut,
    ) -> Option<Cut> {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return None;
        }
        // The compaction to replace is not known. With `None`, the store returns the current compaction if there is
        // one, and the summary is merged into it.
        let incarnation = stored.revision.incarnation();
        let mut cut = pending;
        let mut result = self.store_summary(conversation, incarnation, None, cut.clone()).await;
        if let Err(StoreError::Compaction(CompactionError::NotAnOpening { seq })) = result {
            // At the position where the window should start, tool results of an earlier turn were stored. The window
            // therefore starts after them, and the next summary covers them.
            cut.window_start = self.opening_after(conversation, seq, stored.seq).await;
            result = self.store_summary(conversation, incarnation, None, cut.clone()).await;
        }
        match result {
            Ok(is_stored) => is_stored.then_some(cut),
            Err(error) => {
                tracing::warn!(error.type = error.kind(), error = %error, "a summary could not be stored");
                None
            }
        }
    }

    /// Returns the position of the first exchange after `seq` that opens a turn. `last`, which opens a turn, is the
    /// latest possible result.
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

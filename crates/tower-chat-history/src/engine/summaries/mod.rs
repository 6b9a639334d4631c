//! Having what leaves the window summarized: after the reply, or before a call.

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

/// Makes an engine's summaries, one at a time in a conversation. A clone shares what is under way.
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

    /// Returns the number of summaries under way.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Finishes all summaries under way.
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

    /// Stores the summary that was to be stored with an exchange, if it was not, since another compaction was stored first.
    /// Returns the cut that it is stored with.
    pub(super) async fn keep(&self, conversation: &ConversationId, stored: &Appended, pending: Cut) -> Option<Cut> {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return None;
        }
        // Whatever is stored by now, the summary is put onto it.
        let (incarnation, none) = (stored.revision.incarnation(), CompactionVersion::NONE);
        let mut cut = pending;
        let mut kept = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        if let Err(StoreError::Compaction(CompactionError::NotAnOpening { seq })) = kept {
            // Results of an earlier turn landed where the window was to start. The next summary tells of them.
            cut.window_start = self.opening_after(conversation, seq, stored.seq).await;
            kept = self.store_summary(conversation, incarnation, none, cut.clone()).await;
        }
        match kept {
            Ok(is_kept) => is_kept.then_some(cut),
            Err(error) => {
                tracing::warn!(error.type = error.kind(), error = %error, "a summary could not be stored");
                None
            }
        }
    }

    /// Returns the first exchange after `seq` that opens a turn, or `last`, which does.
    async fn opening_after(&self, conversation: &ConversationId, seq: Seq, last: Seq) -> Seq {
        let Ok(page) = self.store.read_bounded(conversation, seq, PAGE).await else { return last };
        let mut openings = page.exchanges.iter().filter(|recorded| recorded.exchange.opens_turn());
        openings.find(|recorded| recorded.seq > seq).map_or(last, |opening| opening.seq.min(last))
    }
}

/// Returns whether a cut's window starts at an exchange that is stored.
fn is_stored(cut: &Cut, window: &Window) -> bool {
    window.exchanges.last().is_some_and(|last| cut.window_start <= last.seq)
}

//! Summarizing exchanges that leave the window: after the reply, or before a call.

mod after;
mod backoff;
mod before;
mod job;

use std::sync::Arc;

use crate::context::plan::LoadedWindow;
use tokio_util::task::TaskTracker;
use tower_chat_history_core::{Appended, CompactOutcome, ConversationId, Cut, Seq, StoreError};

pub(super) use self::{after::FinishedTurn, job::Job};
use self::{backoff::SummaryBackoff, job::PAGE};
use super::{running::RunningWork, store::BoundedStore};
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
    pub(super) fn new(store: BoundedStore, summaries: Summaries, tasks: TaskTracker) -> Self {
        Self { store, summaries, running: Arc::new(RunningWork::new(tasks)), backoff: Arc::default() }
    }

    /// Returns the number of running summaries.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Stores a pending summary on its own, if its exchange was stored without it. Returns the cut that was stored, if
    /// one was.
    pub(super) async fn store_pending(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        pending: &Cut,
    ) -> Option<Cut> {
        if matches!(stored.compaction, Some(CompactOutcome::Stored(_))) {
            return None;
        }
        match self.store_pending_cut(conversation, stored, pending.clone()).await {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(error.type = error.kind(), error = %error, "a summary could not be stored");
                None
            }
        }
    }

    async fn store_pending_cut(
        &self,
        conversation: &ConversationId,
        stored: &Appended,
        mut cut: Cut,
    ) -> Result<Option<Cut>, StoreError> {
        // At the position where the window should start, tool results of an earlier turn may have been stored. The
        // window then starts after them, and the next summary covers them.
        let Some(opening) = self.opening_from(conversation, cut.window_start).await? else { return Ok(None) };
        cut.window_start = opening;

        // The compaction to replace is not known. With `None`, the store returns the current compaction if there is
        // one, and the summary is merged into it.
        let is_stored = self.store_summary(conversation, stored.revision.incarnation(), None, cut.clone()).await?;
        Ok(is_stored.then_some(cut))
    }

    /// Returns the position of the first exchange from `seq` on that opens a turn.
    async fn opening_from(&self, conversation: &ConversationId, seq: Seq) -> Result<Option<Seq>, StoreError> {
        let page = self.store.read_bounded(conversation, seq, PAGE).await?;
        let opening = page.exchanges.iter().find(|recorded| recorded.exchange.opens_turn());
        Ok(opening.map(|opening| opening.seq))
    }
}

/// Returns `true` if a cut's window starts at an exchange that is stored.
fn is_stored(cut: &Cut, window: &LoadedWindow) -> bool {
    window.exchanges.last().is_some_and(|last| cut.window_start <= last.seq)
}

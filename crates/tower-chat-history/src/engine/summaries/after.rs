//! Summaries after a turn, for which no call waits.

use std::sync::Arc;

use tower_chat_history_context::plan::{self, CallBudget, GrownWindow, first_uncovered};
use tower_chat_history_core::{ConversationId, Cut, Loaded, Message, Window};
use tracing::Span;

use super::{
    super::{count::Counting, turn::fit_budget},
    Job, SummaryWorker, is_stored,
};
use crate::{
    error::HistoryError,
    options::HistoryOptions,
    summary::{SummarizeWhen, SummaryReport},
};

/// A turn that is over, as far as a summary depends on it.
pub(in crate::engine) struct FinishedTurn {
    pub(in crate::engine) budget: CallBudget,
    pub(in crate::engine) counting: Counting,
    pub(in crate::engine) window: GrownWindow,
    /// True if the window starts behind what the summary covers.
    pub(in crate::engine) has_gap: bool,
    /// The turn's.
    pub(in crate::engine) span: Span,
}

impl SummaryWorker {
    /// Has the conversation's beginning summarized, if it is time for that: the turn is over and no call waits.
    pub(in crate::engine) fn after_turn(&self, conversation: &ConversationId, turn: FinishedTurn) {
        let SummarizeWhen::AfterReply { percent } = self.summaries.when else { return };
        let due =
            turn.has_gap || turn.window.is_near(self.store.options().context.watermarks.high(), percent.clamp(1, 100));
        if !due || self.backoff.is_paused(conversation) {
            return;
        }
        let (worker, id) = (self.clone(), conversation.clone());
        let work = async move { worker.summarize_window(&id, &turn).await };
        // If one is under way already, there will be another turn.
        let _ = self.run(conversation, work);
    }

    /// Makes the summary that the window needs, as it is by now.
    async fn summarize_window(&self, conversation: &ConversationId, turn: &FinishedTurn) -> Option<Arc<SummaryReport>> {
        let window = match self.store.load(conversation, None, &turn.span).await {
            Ok(Loaded::Window(window)) => window,
            Ok(Loaded::Absent | Loaded::Unchanged | Loaded::AlreadyRecorded(_)) => return None,
            Err(failure) => {
                let error = HistoryError::from(failure);
                tracing::warn!(
                    error.type = error.kind(),
                    error = %error,
                    "what a summary is to cover could not be loaded; it is made after a later turn"
                );
                return None;
            }
        };
        let cut = next_cut(self.store.options(), &window, turn);
        if cut.window_start <= first_uncovered(&cut, &window) || !is_stored(&cut, &window) {
            return None;
        }
        let job = Job {
            conversation: conversation.clone(),
            window,
            cut,
            counting: turn.counting.clone(),
            max_tokens: self.summaries.max_tokens,
            waited_for: false,
            span: turn.span.clone(),
        };
        Some(Arc::new(self.make_and_store(&job).await))
    }
}

/// What the window should become, as if its compaction were due: it may only have to be covered up to where it starts already.
fn next_cut(options: &HistoryOptions, window: &Window, turn: &FinishedTurn) -> Cut {
    let mut next = turn.budget;
    (next.parts.window, next.parts.input) = (0, 0);
    let cost = |message: &Message| turn.counting.message(message);
    let budget = fit_budget(next, options, true, &cost);
    let stored = || window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    plan::next_cut(window, options.context.load_limit, &budget).unwrap_or_else(stored)
}

//! Summaries that are made after a turn. No call waits for them.

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, Cut, Dialect, Message, Origin};
use tracing::Span;

use super::{
    super::{
        count::Counting,
        store::Found,
        turn::{Called, fit_budget, in_dialect, read_each},
    },
    Job, SummaryWorker, is_stored,
};
use crate::{
    context::plan::{self, CallBudget, GrownWindow, LoadedWindow, first_uncovered},
    error::HistoryError,
    options::HistoryOptions,
    summary::{SummarizeWhen, SummaryReport},
};

/// The data of a finished turn that decide if a summary is made, and for which cut.
pub(in crate::engine) struct FinishedTurn {
    pub(in crate::engine) budget: CallBudget,
    pub(in crate::engine) counting: Counting,
    /// The dialect of the conversation.
    pub(in crate::engine) dialect: &'static dyn Dialect,
    /// The provider of the next call, as far as it is known.
    pub(in crate::engine) origin: Origin,
    pub(in crate::engine) window: GrownWindow,
    /// True if some exchanges before the window are in no summary.
    pub(in crate::engine) has_gap: bool,
    /// The turn's span.
    pub(in crate::engine) span: Span,
}

impl SummaryWorker {
    /// Starts a summary of the conversation's beginning if one is due after this turn.
    pub(in crate::engine) fn after_turn(&self, conversation: &ConversationId, turn: FinishedTurn) {
        let SummarizeWhen::AfterReply { percent } = self.summaries.options.when else { return };
        let due =
            turn.has_gap || turn.window.is_near(self.store.options().context.watermarks.high(), percent.clamp(1, 100));
        if !due || self.backoff.is_paused(conversation) {
            return;
        }
        let (worker, id) = (self.clone(), conversation.clone());
        let work = async move { worker.summarize_window(&id, &turn).await };
        // If a summary is already running, nothing is lost: a later turn starts the next one.
        let _ = self.running.run(conversation, work);
    }

    /// Loads the current window, and makes and stores the summary for its next cut. Returns `None` if there is
    /// nothing to summarize.
    async fn summarize_window(&self, conversation: &ConversationId, turn: &FinishedTurn) -> Option<Arc<SummaryReport>> {
        let loaded = match self.store.load(conversation, turn.dialect, None, &turn.span).await {
            Ok(Found::Window(mut window)) => {
                let called = Called { dialect: turn.dialect, origin: &turn.origin };
                let read = read_each(self.store.options(), turn.dialect, conversation, &window.exchanges);
                match read {
                    Ok(()) => in_dialect(called, &mut window.exchanges).await,
                    Err(error) => Err(error),
                }
                .map(|_| window)
            }
            Ok(Found::Absent(_) | Found::Recorded(_)) => return None,
            Err(failure) => Err(HistoryError::from(failure)),
        };
        let window = match loaded {
            Ok(window) => window,
            Err(error) => {
                tracing::warn!(
                    error.type = error.kind(),
                    error = %error,
                    "the exchanges to summarize could not be loaded; a later turn retries"
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
            dialect: turn.dialect,
            max_tokens: self.summaries.options.max_tokens,
            waited_for: false,
            span: turn.span.clone(),
        };
        Some(Arc::new(self.make_and_store(&job).await))
    }
}

/// Returns the cut that a compaction would store if it were due now. If nothing would leave the window, this is the
/// stored cut: its summary may not yet cover all exchanges before its window.
fn next_cut(options: &HistoryOptions, window: &LoadedWindow, turn: &FinishedTurn) -> Cut {
    let mut next = turn.budget;
    (next.parts.window, next.parts.input) = (0, 0);
    let cost = |message: &Message| turn.counting.message(message);
    let budget = fit_budget(next, options, true, &cost);
    let next = plan::next_cut(window, options.context.load_limit, &budget, &turn.origin);
    next.or_else(|| window.cut().cloned()).unwrap_or_default()
}

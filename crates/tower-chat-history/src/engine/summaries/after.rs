//! Summaries after a turn, for which no call waits.

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, Cut, Loaded, Message, Window};
use tracing::Span;

use super::{
    super::{count::Counting, turn::fit_budget},
    Job, SummaryWorker, is_stored,
};
use crate::{
    budget::{PromptTokens, Watermark, Watermarks},
    error::{HistoryError, chain::chain},
    options::HistoryOptions,
    plan::{self, CallBudget, first_uncovered},
    summary::{SummarizeWhen, SummaryReport},
};

/// A turn that is over, as far as a summary depends on it.
pub(in crate::engine) struct FinishedTurn {
    pub(in crate::engine) budget: CallBudget,
    pub(in crate::engine) counting: Counting,
    /// Prompt and reply, in tokens; and how much of it is new.
    pub(in crate::engine) tokens: u64,
    pub(in crate::engine) new_tokens: u64,
    /// The next window's messages; and how many of them are new.
    pub(in crate::engine) messages: usize,
    pub(in crate::engine) new_messages: usize,
    /// The next window's turns.
    pub(in crate::engine) turns: usize,
    /// Whether the window starts behind what the summary covers.
    pub(in crate::engine) has_gap: bool,
    /// The turn's.
    pub(in crate::engine) span: Span,
}

impl FinishedTurn {
    /// Whether it came near to where a compaction starts, or another turn like this one would get there.
    fn is_near(&self, start: Watermark, percent: u8) -> bool {
        match start {
            Watermark::Percent(start) => {
                let limit = self.budget.limits.max_prompt(self.budget.limits.reserve);
                let limit = limit.saturating_mul(u64::from(start)) / 100;
                let near = self.tokens.saturating_mul(100) > limit.saturating_mul(u64::from(percent));
                near || self.tokens.saturating_add(self.new_tokens) > limit
            }
            Watermark::Messages(messages) => self.messages.saturating_add(self.new_messages) > messages,
            Watermark::Turns(turns) => self.turns.saturating_add(1) > turns,
        }
    }
}

impl SummaryWorker {
    /// Has the conversation's beginning summarized, if it is time for that: the turn is over and no call waits.
    pub(in crate::engine) fn after_turn(&self, conversation: &ConversationId, turn: FinishedTurn) {
        let SummarizeWhen::AfterReply { percent } = self.summaries.when else { return };
        let due = turn.has_gap || turn.is_near(self.store.options().watermarks.high, percent.clamp(1, 100));
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
                    error = %chain(&error),
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
    let parts = PromptTokens { window: 0, input: 0, ..turn.budget.parts };
    let cost = |message: &Message| turn.counting.message(message);
    let mut budget = fit_budget(CallBudget { parts, ..turn.budget }, options, true, &cost);
    let high = match options.watermarks.high {
        Watermark::Percent(_) => Watermark::Percent(1),
        Watermark::Messages(_) => Watermark::Messages(1),
        Watermark::Turns(_) => Watermark::Turns(1),
    };
    budget.watermarks = Watermarks { high, ..options.watermarks };
    let stored = || window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    plan::next_cut(window, options.load_limit, &budget).unwrap_or_else(stored)
}

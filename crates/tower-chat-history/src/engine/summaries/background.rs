//! Summaries that nobody waits for.

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, Cut, Loaded, Message, Window};
use tracing::Span;

use super::{
    is_stored,
    job::{Job, first_uncovered},
};
use crate::{
    budget::{PromptTokens, Watermark, Watermarks},
    engine::{Engine, basis::Basis, count::Counting},
    error::{HistoryError, chain::chain},
    options::HistoryOptions,
    plan,
    summary::{Summaries, SummarizeWhen, SummaryReport},
};

/// The end of a turn, as far as a summary depends on it.
pub(in crate::engine) struct TurnEnd {
    pub(in crate::engine) basis: Basis,
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

impl TurnEnd {
    /// Whether it came near to where a compaction starts, or another turn like this one would get there.
    fn is_near(&self, start: Watermark, percent: u8) -> bool {
        match start {
            Watermark::Percent(start) => {
                let limit = self.basis.limits.max_prompt(self.basis.limits.reserve);
                let limit = limit.saturating_mul(u64::from(start)) / 100;
                let near = self.tokens.saturating_mul(100) > limit.saturating_mul(u64::from(percent));
                near || self.tokens.saturating_add(self.new_tokens) > limit
            }
            Watermark::Messages(messages) => self.messages.saturating_add(self.new_messages) > messages,
            Watermark::Turns(turns) => self.turns.saturating_add(1) > turns,
        }
    }
}

impl Engine {
    /// Has the conversation's beginning summarized, if it is time for that: the turn is over and nobody waits.
    pub(in crate::engine) fn summarize_after(&self, conversation: &ConversationId, end: TurnEnd) {
        let Some(summaries) = self.options().summaries.clone() else { return };
        let SummarizeWhen::AfterReply { percent } = summaries.when else { return };
        let due = end.has_gap || end.is_near(self.options().watermarks.high, percent.clamp(1, 100));
        if !due || self.shared.pauses.is_paused(conversation) {
            return;
        }
        let (engine, id) = (self.clone(), conversation.clone());
        let work = async move { engine.summarize_window(&summaries, &id, &end).await };
        // If one is under way already, there will be another turn.
        let _ = self.run(conversation, work);
    }

    /// Makes the summary that the window needs, as it is by now.
    async fn summarize_window(
        &self,
        summaries: &Summaries,
        conversation: &ConversationId,
        end: &TurnEnd,
    ) -> Option<Arc<SummaryReport>> {
        let policy = self.options();
        let window = match self.load(conversation, self.window_or(None), &end.span).await {
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
        let cut = next_cut(policy, &window, end);
        if cut.window_start <= first_uncovered(&cut, &window) || !is_stored(&cut, &window) {
            return None;
        }
        let job = Job {
            conversation: conversation.clone(),
            window,
            cut,
            counting: end.counting.clone(),
            max_tokens: summaries.max_tokens,
            waited_for: false,
            span: end.span.clone(),
        };
        Some(Arc::new(self.make_and_store(summaries, &job).await))
    }
}

/// What the window should become, as if its compaction were due: it may only have to be covered up to where it starts already.
fn next_cut(policy: &HistoryOptions, window: &Window, end: &TurnEnd) -> Cut {
    let parts = PromptTokens { window: 0, input: 0, ..end.basis.parts };
    let cost = |message: &Message| end.counting.message(message);
    let mut fitting = Basis { parts, ..end.basis }.fitting(policy, true, &cost);
    let high = match policy.watermarks.high {
        Watermark::Percent(_) => Watermark::Percent(1),
        Watermark::Messages(_) => Watermark::Messages(1),
        Watermark::Turns(_) => Watermark::Turns(1),
    };
    fitting.watermarks = Watermarks { high, ..policy.watermarks };
    let stored = || window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    plan::next_cut(window, policy.load_limit, &fitting).unwrap_or_else(stored)
}

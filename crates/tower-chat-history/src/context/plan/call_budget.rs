//! The budget of one call, the rules by which its window is made to fit, and the estimate if a compaction is near.

use std::fmt;

use tower_chat_history_core::Message;

use super::window_index::Size;
use crate::context::budget::{CallLimits, ClearResults, PromptTokens, Trimmer, Watermark, Watermarks};

/// The limits of a call, and the sizes of all parts of its prompt except the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBudget {
    pub(crate) limits: CallLimits,
    /// The sizes, with the room that is reserved for a summary.
    pub(crate) sizes: PromptTokens,
}

impl CallBudget {
    /// Returns the largest prompt that leaves the reply its whole reserve.
    pub(crate) fn limit(&self) -> u64 {
        self.limits.max_prompt(self.limits.reserve)
    }

    /// Returns the size of a prompt with a window of this size.
    pub(super) fn total(&self, window: Size) -> u64 {
        self.sizes.total().saturating_add(window.tokens)
    }

    /// Returns the tokens that a prompt of this size leaves for the window, or `None` if the other parts alone are
    /// larger.
    pub(super) fn room(&self, prompt: u64) -> Option<u64> {
        prompt.checked_sub(self.sizes.total())
    }

    /// Returns the largest size of a summary that the head, tools, response format and input leave room for.
    pub(crate) fn room_for_summary(&self) -> u64 {
        let rest = PromptTokens { summary: 0, window: 0, ..self.sizes };
        self.limit().saturating_sub(rest.total())
    }

    /// Returns the tokens that a prompt with a window of this size leaves for recalled messages.
    pub(super) fn room_for_recalled(&self, window: u64) -> u64 {
        let others = self.sizes.total() - self.sizes.recalled;
        self.limit().saturating_sub(window.saturating_add(others))
    }
}

/// The budget that a window has to fit, and the rules for making it fit.
#[derive(Clone, Copy)]
pub(crate) struct FitBudget<'a> {
    pub(crate) call: CallBudget,
    pub(crate) watermarks: Watermarks,
    pub(crate) clear: Option<&'a ClearResults>,
    pub(crate) trimmer: Option<&'a dyn Trimmer>,
    /// True if compactions are stored. Otherwise there is no next call, and nothing is left out for its benefit.
    pub(crate) stores: bool,
    pub(crate) cost: &'a dyn Fn(&Message) -> u64,
}

impl FitBudget<'_> {
    /// Returns the budget with these limits in place of its own.
    pub(super) fn with_limits(mut self, limits: CallLimits) -> Self {
        self.call.limits = limits;
        self
    }

    /// Returns the largest window for which no compaction is due.
    pub(super) fn room_before_due(&self) -> Option<u64> {
        let limit = self.call.limit();
        match self.watermarks.high {
            Watermark::Percent(percent) => self.call.room(share(limit, percent)),
            _ => self.call.room(limit),
        }
    }

    /// Returns `true` if a window of this size, with this number of turns, has more messages or turns than the high
    /// watermark allows.
    pub(super) fn has_too_many(&self, window: Size, turns: impl FnOnce() -> usize) -> bool {
        match self.watermarks.high {
            Watermark::Percent(_) => false,
            Watermark::Messages(messages) => window.messages > messages,
            Watermark::Turns(most) => turns() > most,
        }
    }

    /// Returns `true` if a compaction of a window of this size, with this number of turns, is due.
    pub(super) fn is_due(&self, window: Size, turns: impl FnOnce() -> usize) -> bool {
        self.has_too_many(window, turns) || self.room_before_due().is_none_or(|room| window.tokens > room)
    }
}

/// Returns this percentage of a limit.
pub(super) fn share(limit: u64, percent: u8) -> u64 {
    limit / 100 * u64::from(percent) + limit % 100 * u64::from(percent) / 100
}

impl fmt::Debug for FitBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FitBudget").field("call", &self.call).finish_non_exhaustive()
    }
}

/// The sizes of the next window, as they are known after a turn, and the sizes that the turn added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrownWindow {
    /// The largest next prompt that leaves the reply its reserve, in tokens.
    pub(crate) limit: u64,
    /// The tokens of prompt and reply.
    pub(crate) tokens: u64,
    /// The tokens that the turn added.
    pub(crate) new_tokens: u64,
    /// The messages of the next window.
    pub(crate) messages: usize,
    /// The messages that the turn added.
    pub(crate) new_messages: usize,
    /// The turns of the next window.
    pub(crate) turns: usize,
}

impl GrownWindow {
    /// Returns `true` if the prompt exceeds this percentage of the high watermark, or if another turn of the same size
    /// would exceed the high watermark. For watermarks that count messages or turns, only the second condition applies.
    pub(crate) fn is_near(&self, high: Watermark, percent: u8) -> bool {
        match high {
            Watermark::Percent(high) => {
                let limit = self.limit.saturating_mul(u64::from(high)) / 100;
                let near = self.tokens.saturating_mul(100) > limit.saturating_mul(u64::from(percent));
                near || self.tokens.saturating_add(self.new_tokens) > limit
            }
            Watermark::Messages(messages) => self.messages.saturating_add(self.new_messages) > messages,
            Watermark::Turns(turns) => self.turns.saturating_add(1) > turns,
        }
    }
}

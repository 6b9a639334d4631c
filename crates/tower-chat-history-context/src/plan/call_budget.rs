//! The budget of one call, and the rules by which its window is made to fit.

use std::fmt;

use tower_chat_history_core::Message;

use crate::budget::{ClearResults, Limits, PromptTokens, Trimmer, Watermarks};

/// The limits of a call, and the sizes of all parts of its prompt except the window.
#[derive(Clone, Copy, Debug)]
pub struct CallBudget {
    pub limits: Limits,
    /// The sizes, with the room that is reserved for a summary.
    pub parts: PromptTokens,
}

impl CallBudget {
    /// Returns the largest size of a summary that the head, tools, response format and input leave room for.
    #[must_use]
    pub fn room_for_summary(self) -> u64 {
        let rest = PromptTokens { summary: 0, window: 0, ..self.parts };
        self.limits.max_prompt(self.limits.reserve).saturating_sub(rest.total())
    }
}

/// The budget that a window has to fit, and the rules for making it fit.
#[derive(Clone, Copy)]
pub struct FitBudget<'a> {
    pub limits: Limits,
    pub watermarks: Watermarks,
    pub clear: Option<&'a ClearResults>,
    pub trimmer: Option<&'a dyn Trimmer>,
    /// True if compactions are stored. Otherwise there is no next call, and nothing is left out for its benefit.
    pub stores: bool,
    /// The sizes of everything but the window, with the room that is reserved for a summary.
    pub parts: PromptTokens,
    pub cost: &'a dyn Fn(&Message) -> u64,
}

impl fmt::Debug for FitBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FitBudget").field("limits", &self.limits).field("parts", &self.parts).finish_non_exhaustive()
    }
}

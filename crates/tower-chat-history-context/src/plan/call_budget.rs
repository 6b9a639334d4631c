//! The budget of one call.

use crate::budget::{Limits, PromptTokens};

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

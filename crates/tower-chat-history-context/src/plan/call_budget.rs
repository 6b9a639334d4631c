//! The budget of one call.

use crate::budget::{Limits, PromptTokens};

/// The limits of a call, and the sizes of everything but its window.
#[derive(Clone, Copy, Debug)]
pub struct CallBudget {
    pub limits: Limits,
    /// With the room that is reserved for a summary.
    pub parts: PromptTokens,
}

impl CallBudget {
    /// Returns how large a summary may be, beside what has to be sent.
    #[must_use]
    pub fn room_for_summary(self) -> u64 {
        let rest = PromptTokens { summary: 0, window: 0, ..self.parts };
        self.limits.max_prompt(self.limits.reserve).saturating_sub(rest.total())
    }
}

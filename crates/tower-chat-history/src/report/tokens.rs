//! What was counted for a turn.

use tower_chat_history_context::budget::{PromptTokens, Trimming};

/// What was counted for a call, and what was left out to make it fit. All sizes are tokens by the call's counter, but those
/// that the provider reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnTokens {
    /// What was sent.
    pub prompt: PromptTokens,
    /// What could have been sent beside the reply's reserve; the largest number there is, where there is no limit.
    pub limit: u64,
    /// What was reserved for the reply, in tokens of the provider.
    pub reply_reserve: u64,
    /// What the request's own limit of the reply was lowered to, if it had to be.
    pub reply_limit: Option<u32>,
    /// Messages that were left out, beyond what earlier compactions leave out.
    pub evicted_messages: usize,
    /// Their tokens, and those of what was cleared.
    pub evicted_tokens: u64,
    /// Why the window had to be made smaller, and how.
    pub trimming: Trimming,
    /// How many of the prompt's tokens the prompt began with that this process sent before in the conversation: what a provider's
    /// cache of prefixes can serve. None for the first one, and where nobody listens: no subscriber, hook, handle or meter.
    pub cached_prefix: Option<u64>,
    /// True if a compaction was decided on, which the next calls will begin with. It is stored with the exchange. One
    /// that was stored with a [summary](super::TurnReport::summary) before is not told here. One that was stored after
    /// the reply is told by the [next report](super::TurnReport::since_last).
    pub compacted: bool,
    /// True if more was left out than the next calls will leave out.
    pub for_this_call: bool,
    /// How many of the provider's tokens a counted one was taken for: from 1 to 1.5, learned from this conversation's
    /// own [reports](crate::ContextBudget::calibrate). It is 1 where nothing is known, and where the call fits only as
    /// it is counted.
    pub calibration: f64,
    /// The prompt's size as the provider reported it.
    pub reported: Option<u64>,
}

impl TurnTokens {
    /// What the prompt would have had without anything left out for it. (What earlier compactions left out is not in it.)
    #[must_use]
    pub const fn before(&self) -> u64 {
        self.prompt.total().saturating_add(self.evicted_tokens)
    }

    /// What share of the prompt's tokens the prompt before began with too, from 0 to 1. See [`cached_prefix`](Self::cached_prefix).
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Tokens are few.
    pub fn cached_prefix_ratio(&self) -> Option<f64> {
        let total = self.prompt.total();
        self.cached_prefix.filter(|_| total > 0).map(|cached_prefix| cached_prefix as f64 / total as f64)
    }

    /// By what share the count was wrong: 0.1 says that the provider counted 10% more.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Tokens are few.
    pub fn estimate_error(&self) -> Option<f64> {
        let counted = self.prompt.total();
        self.reported.filter(|_| counted > 0).map(|reported| reported as f64 / counted as f64 - 1.0)
    }
}

//! The token counts of a turn.

use tower_chat_history_context::budget::{PromptTokens, Trimming};

/// The token counts of a turn: the sizes of the prompt's parts, and of the parts that were left out to make it fit.
/// Unless stated otherwise, sizes are in tokens as the turn's counter counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnTokens {
    /// The size of the prompt that was sent.
    pub prompt: PromptTokens,
    /// The largest allowed size of the prompt: the context window minus the reply reserve, in tokens of the counter,
    /// with the [correction](Self::calibration). `u64::MAX` if there is no limit.
    pub limit: u64,
    /// The reply reserve, in tokens as the provider counts them.
    pub reply_reserve: u64,
    /// The value, in tokens, to which the request's own reply limit was lowered, if that was necessary.
    pub reply_limit: Option<u32>,
    /// The number of messages that this turn left out. Messages that earlier compactions left out are not included.
    pub evicted_messages: usize,
    /// The number of tokens that this turn removed: those of these messages, and those that clearing saved in tool
    /// results.
    pub evicted_tokens: u64,
    /// The reason why the window had to be made smaller, and the way in which this was done.
    pub trimming: Trimming,
    /// The size of the [cached prefix](crate::glossary): the tokens at the beginning of this prompt that also begin
    /// the previous prompt of the conversation in this process. A provider's prefix cache can serve them. `None` for
    /// the first prompt, and if nothing observes the turn (no subscriber, hook, handle or meter).
    pub cached_prefix: Option<u64>,
    /// True if this turn planned a new compaction, which is stored with the exchange and applies to later calls. Two
    /// compactions do not count: one that was stored with a [summary](super::TurnReport::summary) before the call, and
    /// one that is stored after the reply, which the [next report](super::TurnReport::since_last) shows.
    pub compacted: bool,
    /// True if a part was left out of this prompt only: the compaction for later calls leaves out less.
    pub for_this_call: bool,
    /// The [calibration](crate::ContextBudget::calibrate) factor, learned from the usage that the provider reported in
    /// this conversation: provider tokens per counted token, in a prompt of the largest size. It is from 1 to 1.5, and
    /// from 0.8 to 2 if the counter is an [estimate](crate::tokens::TokenCounter::is_estimate). It is 1 before the
    /// first report, and if the prompt fits only without the correction.
    pub calibration: f64,
    /// The prompt's size in tokens, as the provider reported it.
    pub reported: Option<u64>,
}

impl TurnTokens {
    /// Returns the prompt's size in tokens before this turn left anything out. Messages that earlier compactions left
    /// out are not included.
    #[must_use]
    pub const fn before(&self) -> u64 {
        self.prompt.total().saturating_add(self.evicted_tokens)
    }

    /// Returns the [cached prefix](Self::cached_prefix) as a share of the prompt, from 0 to 1.
    #[must_use]
    pub fn cached_prefix_ratio(&self) -> Option<f64> {
        // The casts are exact: numbers of tokens are far below 2^53.
        let total = self.prompt.total();
        self.cached_prefix.filter(|_| total > 0).map(|cached_prefix| cached_prefix as f64 / total as f64)
    }

    /// Returns the relative error of the prompt's token count: 0.1 means that the provider counted 10% more tokens
    /// than the counter.
    #[must_use]
    pub fn estimate_error(&self) -> Option<f64> {
        let counted = self.prompt.total();
        self.reported.filter(|_| counted > 0).map(|reported| reported as f64 / counted as f64 - 1.0)
    }
}

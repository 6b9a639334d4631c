//! The token counts of a turn.

use tower_chat_history_context::budget::{PromptTokens, Trimming};

/// The token counts of a call, and the sizes of the parts that were left out to make it fit. Unless stated otherwise,
/// sizes are in tokens of the call's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnTokens {
    /// The size of the prompt that was sent.
    pub prompt: PromptTokens,
    /// The largest size of a prompt that leaves room for the reply reserve. `u64::MAX` if there is no limit.
    pub limit: u64,
    /// The reply reserve, in tokens of the provider.
    pub reply_reserve: u64,
    /// The limit to which the request's own limit of the reply was lowered, if that was necessary.
    pub reply_limit: Option<u32>,
    /// The number of messages that were left out in addition to those that earlier compactions leave out.
    pub evicted_messages: usize,
    /// The tokens of these messages, and of the cleared tool results.
    pub evicted_tokens: u64,
    /// The reason why the window had to be made smaller, and the way in which this was done.
    pub trimming: Trimming,
    /// The number of tokens with which both this prompt and the conversation's previous prompt from this process
    /// begin: the part that a provider's prefix cache can serve. `None` for the first prompt, and if nothing observes
    /// the turn (no subscriber, hook, handle or meter).
    pub cached_prefix: Option<u64>,
    /// True if this call made a new compaction, which applies to later calls. It is stored with the exchange. Two other
    /// compactions are not included: one that was stored before the call, with a
    /// [summary](super::TurnReport::summary), and one that is stored after the reply, which the
    /// [next report](super::TurnReport::since_last) shows.
    pub compacted: bool,
    /// True if this call left out more than later calls will leave out.
    pub for_this_call: bool,
    /// The correction factor: provider tokens per counted token, from 1 to 1.5. It is
    /// [learned](crate::ContextBudget::calibrate) from the usage reports of this conversation. It is 1 if nothing was
    /// learned yet, or if the call fits only without the correction.
    pub calibration: f64,
    /// The prompt's size in tokens, as the provider reported it.
    pub reported: Option<u64>,
}

impl TurnTokens {
    /// Returns the prompt's size before anything was left out for this call. (Messages that earlier compactions left
    /// out are not included.)
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

    /// Returns the relative error of the count: 0.1 means that the provider counted 10% more.
    #[must_use]
    pub fn estimate_error(&self) -> Option<f64> {
        let counted = self.prompt.total();
        self.reported.filter(|_| counted > 0).map(|reported| reported as f64 / counted as f64 - 1.0)
    }
}

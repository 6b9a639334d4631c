//! Options of recall.

use std::{sync::Arc, time::Duration};

use tower_chat_history_core::ConversationId;

use super::Recall;

/// The options of recall. Pass them to [`HistoryOptions::recall`](crate::HistoryOptions::recall) to show earlier messages
/// again when a new input needs them.
#[derive(Clone, Debug)]
pub struct RecallOptions {
    pub(crate) recall: Arc<dyn Recall>,
    pub(crate) timeout: Duration,
    pub(crate) prepare_timeout: Duration,
    pub(crate) max_preparations: usize,
    percent: u8,
    max_tokens: Option<u32>,
}

/// The allowance of a call without a budget, in tokens.
const WITHOUT_BUDGET: u64 = 2_000;

/// The smallest allowance for which a search is made, in tokens. Even one short message needs more with its frame.
pub(crate) const LEAST_ALLOWANCE: u64 = 64;

impl RecallOptions {
    /// The default [timeout](Self::timeout) of a search.
    pub const TIMEOUT: Duration = Duration::from_millis(250);

    /// Creates the default options, with this search.
    pub fn new(recall: impl Recall) -> Self {
        Self {
            recall: Arc::new(recall),
            timeout: Self::TIMEOUT,
            prepare_timeout: Duration::from_secs(60),
            max_preparations: 16,
            percent: 12,
            max_tokens: None,
        }
    }

    /// Sets the largest size of recalled messages as a percentage of the largest allowed prompt. Values above 100 mean
    /// 100. The default is 12. Without a [budget](crate::budget), the size is 2,000 tokens.
    #[must_use]
    pub const fn percent(mut self, percent: u8) -> Self {
        self.percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// Sets the largest size of recalled messages in tokens, in addition to the [percentage](Self::percent). The default
    /// is no such limit.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the timeout of a search. After it, the model is called without recalled messages. It is checked whenever
    /// the search waits or pauses, so a search that computes without pauses ends later. While tasks are always ready,
    /// tokio looks at its timers only after 61 polls, so a search with pauses can end about 60 milliseconds late. The
    /// default is 250 milliseconds. Set a longer one for a search [by meaning](super#by-meaning), which calls a model.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout of a [preparation](Recall::prepare), which runs in the background. The work that is done
    /// until then stays. The default is 60 seconds.
    #[must_use]
    pub const fn prepare_timeout(mut self, timeout: Duration) -> Self {
        self.prepare_timeout = timeout;
        self
    }

    /// Sets the largest number of [preparations](Recall::prepare) that an engine runs at the same time, over all
    /// conversations. If so many are running, a later turn of the conversation makes the preparation. The default is
    /// 16.
    #[must_use]
    pub const fn max_preparations(mut self, preparations: usize) -> Self {
        self.max_preparations = preparations;
        self
    }

    /// Returns `true` if the search covers other conversations than this one.
    pub(crate) fn covers_others(&self, conversation: &ConversationId) -> bool {
        self.recall.covers_others(conversation)
    }

    /// Returns the largest allowed size, in tokens, for prompts of at most `limit` tokens.
    pub(crate) fn allowance(&self, limit: Option<u64>) -> u64 {
        let share = limit.map_or(WITHOUT_BUDGET, |limit| {
            let percent = u64::from(self.percent);
            limit / 100 * percent + limit % 100 * percent / 100
        });
        share.min(self.max_tokens.map_or(u64::MAX, u64::from))
    }

    /// Returns the tokens that a plan reserves, for prompts of at most `limit` tokens: a quarter of the allowance, but
    /// enough for a search. If fewer are free, a compaction is due.
    pub(crate) fn reserve(&self, limit: Option<u64>) -> u64 {
        let allowance = self.allowance(limit);
        if allowance < LEAST_ALLOWANCE { 0 } else { (allowance / 4).max(LEAST_ALLOWANCE) }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{PrepareRequest, RecallError, RecallRequest, Recollection},
        *,
    };

    #[derive(Debug)]
    struct Nothing;

    #[async_trait::async_trait]
    impl Recall for Nothing {
        async fn recall(&self, _: RecallRequest<'_>) -> Result<Recollection, RecallError> {
            Ok(Recollection::nothing())
        }

        async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
            Ok(false)
        }
    }

    #[test]
    fn the_allowance_is_a_share_of_the_limit_and_at_most_the_maximum() {
        let options = RecallOptions::new(Nothing);
        assert_eq!(
            [Some(10_000), Some(99), Some(u64::MAX), None].map(|limit| options.allowance(limit)),
            [1_200, 11, u64::MAX / 100 * 12 + 1, 2_000]
        );
        assert_eq!([10_000, 1_000, 500].map(|limit| options.reserve(Some(limit))), [300, 64, 0]);
        let options = options.percent(200).max_tokens(500);
        assert_eq!([Some(300), Some(10_000), None].map(|limit| options.allowance(limit)), [300, 500, 500]);
    }
}

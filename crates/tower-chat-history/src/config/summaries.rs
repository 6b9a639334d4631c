//! The options of summaries, as data.

use serde::Deserialize;
use tower_chat_history_core::config::ConfigError;

use super::number::{millis, positive};
use crate::summary::{Summaries, SummarizeWhen};

/// The settings of [`Summaries`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SummariesConfig {
    /// [`Summaries::when`].
    pub when: Option<WhenConfig>,
    /// [`Summaries::max_tokens`].
    pub max_tokens: Option<u32>,
    /// [`Summaries::least_room`].
    pub least_room_tokens: Option<u32>,
    /// [`Summaries::chunk_tokens`].
    pub chunk_tokens: Option<u32>,
    /// [`Summaries::timeout`].
    pub timeout_ms: Option<u64>,
}

/// The settings of [`SummarizeWhen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhenConfig {
    /// [`SummarizeWhen::AfterReply`], at this percentage of the high watermark.
    AfterReplyAtPercent(u8),
    /// [`SummarizeWhen::BeforeCall`].
    BeforeCall,
    /// [`SummarizeWhen::BeforeEveryCall`].
    BeforeEveryCall,
}

impl SummariesConfig {
    /// Sets these options of summaries. Options without a setting stay as they are.
    ///
    /// # Errors
    ///
    /// Returns an error if a size or the timeout is 0, if the percentage is not from 1 to 100, or if `chunk_tokens` is
    /// less than four times the size of a summary.
    pub fn apply(&self, mut summaries: Summaries) -> Result<Summaries, ConfigError> {
        if let Some(when) = self.when {
            summaries = summaries.when(when.build()?);
        }
        if let Some(tokens) = self.max_tokens {
            positive(tokens.into(), "max_tokens")?;
            summaries = summaries.max_tokens(tokens);
        }
        if let Some(tokens) = self.least_room_tokens {
            summaries = summaries.least_room(tokens);
        }
        if let Some(tokens) = self.chunk_tokens {
            summaries = summaries.chunk_tokens(tokens);
        }
        let least = summaries.max_tokens.saturating_mul(4);
        let path = if self.chunk_tokens.is_some() { "chunk_tokens" } else { "max_tokens" };
        let reason = format!("`chunk_tokens` must be at least four times `max_tokens`, which is {least}");
        ConfigError::unless(summaries.chunk_tokens >= least, path, reason)?;
        if let Some(timeout) = self.timeout_ms {
            summaries = summaries.timeout(millis(timeout, "timeout_ms")?);
        }
        Ok(summaries)
    }
}

impl WhenConfig {
    fn build(self) -> Result<SummarizeWhen, ConfigError> {
        Ok(match self {
            Self::AfterReplyAtPercent(percent) => {
                let path = "when.after_reply_at_percent";
                ConfigError::unless((1..=100).contains(&percent), path, "it must be from 1 to 100")?;
                SummarizeWhen::AfterReply { percent }
            }
            Self::BeforeCall => SummarizeWhen::BeforeCall,
            Self::BeforeEveryCall => SummarizeWhen::BeforeEveryCall,
        })
    }
}

//! The options of prompts, as data.

use serde::Deserialize;
use tower_chat_history_context::budget::{ClearResults, Watermark, Watermarks};
use tower_chat_history_core::{LoadLimit, Profile, config::ConfigError};

use super::{
    budget::BudgetConfig,
    number::{positive, size},
};
use crate::options::ContextOptions;

/// The settings of [`ContextOptions`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ContextConfig {
    /// [`ContextOptions::budget`].
    pub budget: BudgetConfig,
    /// [`ContextOptions::watermarks`].
    pub watermarks: WatermarksConfig,
    /// [`ContextOptions::load_limit`].
    pub load_limit: LoadLimitConfig,
    /// [`ContextOptions::clear_results`]. Without this group, no results are cleared.
    pub clear_results: Option<ClearResultsConfig>,
    /// [`ContextOptions::profile`].
    pub profile: Option<String>,
}

/// The settings of [`Watermarks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WatermarksConfig {
    /// The size above which a compaction starts.
    pub high: Option<WatermarkConfig>,
    /// The size to which a compaction reduces the prompt.
    pub low: Option<WatermarkConfig>,
}

/// The settings of a [`Watermark`]: one of these names with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WatermarkConfig {
    /// [`Watermark::Percent`].
    Percent(u8),
    /// [`Watermark::Messages`].
    Messages(u64),
    /// [`Watermark::Turns`].
    Turns(u64),
}

/// The settings of a [`LoadLimit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LoadLimitConfig {
    /// [`LoadLimit::messages`].
    pub messages: Option<u64>,
    /// [`LoadLimit::bytes`].
    pub bytes: Option<u64>,
}

/// The settings of [`ClearResults`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClearResultsConfig {
    /// [`ClearResults::keep`].
    pub keep: Option<u64>,
    /// [`ClearResults::clear_at_least`].
    pub clear_at_least_tokens: Option<u64>,
    /// [`ClearResults::exclude_tools`].
    pub exclude_tools: Vec<String>,
    /// [`ClearResults::placeholder`].
    pub placeholder: Option<String>,
}

impl ContextConfig {
    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns an error if the budget, the watermarks, the load limit or the profile cannot be used, or if the high
    /// watermark can never be reached.
    pub fn build(&self) -> Result<ContextOptions, ConfigError> {
        let budget = self.budget.build().map_err(|error| error.within("budget"))?;
        let load_limit = self.load_limit.build().map_err(|error| error.within("load_limit"))?;
        let watermarks = self.watermarks.build().map_err(|error| error.within("watermarks"))?;
        self.check_reachable(load_limit).map_err(|error| error.within("watermarks"))?;
        let mut options = ContextOptions::new().budget(budget).load_limit(load_limit).watermarks(watermarks);
        if let Some(clear) = &self.clear_results {
            options = options.clear_results(clear.build());
        }
        if let Some(profile) = &self.profile {
            let profile = Profile::new(profile).map_err(|error| ConfigError::new("profile", error.to_string()))?;
            options = options.profile(profile);
        }
        Ok(options)
    }

    /// Checks that a prompt or a window can exceed the high watermark.
    fn check_reachable(&self, load_limit: LoadLimit) -> Result<(), ConfigError> {
        let WatermarksConfig { high, low } = self.watermarks;
        let is_percentage = matches!(low, Some(WatermarkConfig::Percent(_)));
        let reason = "it has no effect: without a limit, there is no percentage of it";
        ConfigError::unless(!(is_percentage && high.is_some() && self.budget.unlimited), "low", reason)?;
        match high {
            Some(WatermarkConfig::Messages(number) | WatermarkConfig::Turns(number)) => {
                let reason = format!(
                    "it can never be exceeded: a call loads at most {} messages (`load_limit.messages`)",
                    load_limit.messages()
                );
                ConfigError::unless(size(number) < load_limit.messages(), "high", reason)
            }
            // By default, it is a percentage, too.
            Some(WatermarkConfig::Percent(_)) | None => {
                let path = if high.is_some() { "high" } else { "low" };
                let is_set = high.is_some() || low.is_some();
                let reason = "it can never be reached: without a limit, there is no percentage of it";
                ConfigError::unless(!(is_set && self.budget.unlimited), path, reason)
            }
        }
    }
}

impl WatermarksConfig {
    fn build(self) -> Result<Watermarks, ConfigError> {
        let default = Watermarks::default();
        let high = self.high.map_or(Ok(default.high()), |high| high.build("high"))?;
        let low = self.low.map_or(Ok(default.low()), |low| low.build("low"))?;
        // Each of them is valid, so it is the order.
        let path = if self.low.is_some() { "low" } else { "high" };
        Watermarks::new(high, low).map_err(|_| ConfigError::new(path, "the low watermark must not exceed the high one"))
    }
}

impl WatermarkConfig {
    fn build(self, path: &str) -> Result<Watermark, ConfigError> {
        let (watermark, number) = match self {
            Self::Percent(percent) => (Watermark::Percent(percent), percent.into()),
            Self::Messages(messages) => (Watermark::Messages(size(messages)), messages),
            Self::Turns(turns) => (Watermark::Turns(size(turns)), turns),
        };
        positive(number, path)?;
        let is_percentage = matches!(self, Self::Percent(_));
        ConfigError::unless(!is_percentage || number <= 100, path, "it must be at most 100 percent")?;
        Ok(watermark)
    }
}

impl LoadLimitConfig {
    fn build(self) -> Result<LoadLimit, ConfigError> {
        let default = LoadLimit::default();
        for (path, number) in [("messages", self.messages), ("bytes", self.bytes)] {
            number.map_or(Ok(()), |number| positive(number, path))?;
        }
        let messages = self.messages.map_or(default.messages(), size);
        let bytes = self.bytes.map_or(default.bytes(), size);
        LoadLimit::new(messages, bytes).map_err(|error| ConfigError::new("", error.to_string()))
    }
}

impl ClearResultsConfig {
    fn build(&self) -> ClearResults {
        let mut clear = ClearResults::new().exclude_tools(self.exclude_tools.iter().cloned());
        if let Some(results) = self.keep {
            clear = clear.keep(size(results));
        }
        if let Some(tokens) = self.clear_at_least_tokens {
            clear = clear.clear_at_least(tokens);
        }
        match &self.placeholder {
            Some(text) => clear.placeholder(text),
            None => clear,
        }
    }
}

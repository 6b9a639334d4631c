//! The options of engines and layers, as data.

use std::{fmt, sync::Arc, time::Duration};

use serde::Deserialize;
use tower_chat_history_context::InputMode;
use tower_chat_history_core::{
    List, Prune,
    config::{ConfigError, field},
};

use super::{context, limits::LimitSettings};
use crate::{
    engine::{Engine, Retention},
    options::{ContextOptions, HistoryOptions, Policies},
    summary::{Summaries, Summarizer, SummaryOptions},
    telemetry::Telemetry,
};

/// The settings of [`HistoryOptions`], and those that an adapter and an engine need next to them. The
/// [module docs](super) have a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryConfig {
    /// [`HistoryOptions::context`], to which code can add a trimmer, a counter and a format.
    pub context: ContextOptions,
    policies: Policies,
    summaries: Option<SummaryOptions>,
    limits: LimitSettings,
    /// [`HistoryOptions::telemetry`], to which code can add a meter.
    pub telemetry: Telemetry,
    #[serde(rename = "store_timeout_ms", deserialize_with = "field::timeout_or_none")]
    store_timeout: Option<Duration>,
    #[serde(deserialize_with = "field::positive")]
    save_attempts: u32,
    #[serde(rename = "stream_idle_timeout_ms", deserialize_with = "field::timeout_or_none")]
    stream_idle_timeout: Option<Duration>,
    #[serde(deserialize_with = "field::some_positive")]
    retain_last_turns: Option<usize>,
    input_mode: InputMode,
}

/// The values that settings need and cannot describe.
#[derive(Clone, Default)]
pub struct Parts {
    summaries: Option<Summaries>,
    store: Option<Arc<dyn List>>,
}

/// The values that were built from settings. [`Built::engine`] uses the options and the retention.
#[derive(Clone, Debug)]
#[must_use = "the options and the retention have no effect without an engine"]
#[non_exhaustive]
pub struct Built {
    /// The options for the layer or the engine.
    pub options: HistoryOptions,
    /// The retention for [`Engine::with_retention`](crate::Engine::with_retention), if there is one.
    pub retention: Option<Retention>,
    /// The mode for the adapter.
    pub input_mode: InputMode,
}

impl Built {
    /// Creates an engine with these options, and with the retention if there is one. The mode is for the adapter.
    pub fn engine(&self, store: impl Prune) -> Engine {
        let options = self.options.clone();
        match self.retention {
            Some(retention) => Engine::with_retention(store, options, retention),
            None => Engine::with_options(store, options),
        }
    }
}

impl Parts {
    /// Creates a value without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the summarizer, which is used if the settings have the group `summaries`.
    #[must_use]
    pub fn summarizer(mut self, summarizer: impl Summarizer) -> Self {
        self.summaries = Some(Summaries::new(summarizer));
        self
    }

    /// Sets the store in which conversations are counted, which is used if the settings limit their number.
    #[must_use]
    pub fn store(mut self, store: impl List) -> Self {
        self.store = Some(Arc::new(store));
        self
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("summaries", &self.summaries).field("store", &self.store).finish()
    }
}

impl HistoryConfig {
    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns the first setting that contradicts another one, that has no effect, or that needs a part which is
    /// missing.
    pub fn build(&self, parts: Parts) -> Result<Built, ConfigError> {
        context::check(&self.context).map_err(|error| error.within("context"))?;
        if let Some(turns) = self.retain_last_turns {
            self.limits.check_exchanges(turns).map_err(|error| error.within("limits"))?;
        }
        let limits = self.limits.rules().map_err(|error| error.within("limits"))?;
        let quota = self.limits.quota(parts.store).map_err(|error| error.within("limits"))?;

        let mut options = HistoryOptions::new()
            .context(self.context.clone())
            .policies(self.policies.clone())
            .limits(limits)
            .telemetry(self.telemetry.clone())
            .store_timeout(self.store_timeout)
            .save_attempts(self.save_attempts)
            .stream_idle_timeout(self.stream_idle_timeout);
        options.conversation_quota = quota;
        options.summaries = self.summaries(parts.summaries).map_err(|error| error.within("summaries"))?;

        let retention = self.retain_last_turns.map(Retention::LastTurns);
        Ok(Built { options, retention, input_mode: self.input_mode })
    }

    fn summaries(&self, summaries: Option<Summaries>) -> Result<Option<Summaries>, ConfigError> {
        let Some(options) = self.summaries else { return Ok(None) };
        let reason = "they need a summarizer (`Parts::summarizer`)";
        let summaries = summaries.ok_or_else(|| ConfigError::new("", reason))?;

        let least = options.max_tokens.saturating_mul(4);
        let is_default = options.chunk_tokens == SummaryOptions::default().chunk_tokens;
        let path = if is_default { "max_tokens" } else { "chunk_tokens" };
        let reason = format!("`chunk_tokens` must be at least four times `max_tokens`, which is {least}");
        ConfigError::unless(options.chunk_tokens >= least, path, reason)?;
        if let Some(prompt) = self.context.budget.least_prompt() {
            let reason = format!("it must be less than the largest prompt, which has {prompt} tokens");
            ConfigError::unless(options.max_tokens < prompt, "max_tokens", reason)?;
        }
        Ok(Some(Summaries { options, ..summaries }))
    }
}

impl Default for HistoryConfig {
    fn default() -> Self {
        let options = HistoryOptions::new();
        Self {
            context: options.context,
            policies: options.policies,
            summaries: None,
            limits: LimitSettings::default(),
            telemetry: options.telemetry,
            store_timeout: options.store_timeout,
            save_attempts: options.save_attempts,
            stream_idle_timeout: options.stream_idle_timeout,
            retain_last_turns: None,
            input_mode: InputMode::default(),
        }
    }
}

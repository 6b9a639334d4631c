//! The options of engines and layers, as data.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use tower_chat_history_context::InputMode;
use tower_chat_history_core::{List, Prune, config::ConfigError};

use super::{
    context::ContextConfig,
    limits::{LimitRulesConfig, LimitsConfig},
    number::{OrNone, positive, size},
    policies::PoliciesConfig,
    summaries::SummariesConfig,
    telemetry::TelemetryConfig,
};
use crate::{
    engine::{Engine, Retention},
    options::HistoryOptions,
    summary::{Summaries, Summarizer},
};

/// The settings of [`HistoryOptions`], and those that an adapter and an engine need next to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryConfig {
    /// [`HistoryOptions::context`].
    pub context: ContextConfig,
    /// [`HistoryOptions::policies`].
    pub policies: PoliciesConfig,
    /// [`HistoryOptions::summaries`]. Without this group, there are no summaries. With it, a
    /// [summarizer](Parts::summarizer) is needed.
    pub summaries: Option<SummariesConfig>,
    /// [`HistoryOptions::limits`] and [`HistoryOptions::conversation_quota`].
    pub limits: LimitRulesConfig,
    /// [`HistoryOptions::telemetry`].
    pub telemetry: TelemetryConfig,
    /// [`HistoryOptions::store_timeout`].
    pub store_timeout_ms: Option<OrNone>,
    /// [`HistoryOptions::save_attempts`].
    pub save_attempts: Option<u32>,
    /// [`HistoryOptions::stream_idle_timeout`].
    pub stream_idle_timeout_ms: Option<OrNone>,
    /// The number of turns of each conversation that stay stored: [`Retention::LastTurns`]. The default is all. Every
    /// limit `max_exchanges` must be more than 5/4 of this number, because a conversation at its limit is not pruned.
    /// Turns with calls of tools have several exchanges, so set it to a multiple of that.
    pub retain_last_turns: Option<u64>,
    /// The mode of the adapter: [`InputMode`].
    pub input_mode: Option<InputModeConfig>,
}

/// The settings of [`InputMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputModeConfig {
    /// [`InputMode::New`].
    New,
    /// [`InputMode::Transcript`].
    Transcript,
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
    /// Builds the options. Like [`HistoryOptions::new`], this stores the handle of the current tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns the first setting that cannot be used, or that needs a part which is missing.
    pub fn build(&self, parts: Parts) -> Result<Built, ConfigError> {
        let context = self.context.build().map_err(|error| error.within("context"))?;
        let policies = self.policies.build().map_err(|error| error.within("policies"))?;
        let telemetry = self.telemetry.build().map_err(|error| error.within("telemetry"))?;
        let limits = self.limits.build(parts.store.as_ref()).map_err(|error| error.within("limits"))?;
        let mut options =
            HistoryOptions::new().context(context).policies(policies).telemetry(telemetry).limits(limits.0);
        options.conversation_quota = limits.1;
        options.summaries = self.summaries(parts.summaries).map_err(|error| error.within("summaries"))?;
        if let Some(timeout) = self.store_timeout_ms {
            options = options.store_timeout(timeout.millis("store_timeout_ms")?);
        }
        if let Some(attempts) = self.save_attempts {
            positive(attempts.into(), "save_attempts")?;
            options = options.save_attempts(attempts);
        }
        if let Some(timeout) = self.stream_idle_timeout_ms {
            options = options.stream_idle_timeout(timeout.millis("stream_idle_timeout_ms")?);
        }
        if let Some(turns) = self.retain_last_turns {
            positive(turns, "retain_last_turns")?;
        }
        self.check_exchanges().map_err(|error| error.within("limits"))?;
        let retention = self.retain_last_turns.map(|turns| Retention::LastTurns(size(turns)));
        let input_mode = match self.input_mode {
            None => InputMode::default(),
            Some(InputModeConfig::New) => InputMode::New,
            Some(InputModeConfig::Transcript) => InputMode::Transcript,
        };
        Ok(Built { options, retention, input_mode })
    }

    /// Checks that a conversation is pruned before its number of exchanges reaches the limit. Nothing is pruned after
    /// that, because no exchange is added.
    fn check_exchanges(&self) -> Result<(), ConfigError> {
        let Some(turns) = self.retain_last_turns else { return Ok(()) };
        let most = turns.saturating_add(turns / 4);
        let check = |limits: &LimitsConfig, path: &str| {
            let exchanges = limits.max_exchanges.and_then(OrNone::number);
            let reason = format!("it must be more than {most}, because of `retain_last_turns`, which is {turns}");
            let is_more = exchanges.is_none_or(|exchanges| exchanges > most);
            ConfigError::unless(is_more, "max_exchanges", reason).map_err(|error| error.within(path))
        };
        check(&self.limits.all, "all")?;
        let mut under = self.limits.complete()?.into_iter();
        under.try_for_each(|(text, limits)| check(&limits, &format!("under.{text}")))
    }

    fn summaries(&self, summaries: Option<Summaries>) -> Result<Option<Summaries>, ConfigError> {
        let Some(config) = &self.summaries else { return Ok(None) };
        let reason = "they need a summarizer (`Parts::summarizer`)";
        let summaries = config.apply(summaries.ok_or_else(|| ConfigError::new("", reason))?)?;
        if let Some(prompt) = self.context.budget.least_prompt() {
            let reason = format!("it must be less than the largest prompt, which has {prompt} tokens");
            ConfigError::unless(summaries.max_tokens < prompt, "max_tokens", reason)?;
        }
        Ok(Some(summaries))
    }
}

//! Options as data, for a configuration file.
//!
//! With the feature `config`, options are data of serde. A program puts the groups that it needs into a struct of its
//! own, reads it from a file, and builds the options:
//!
//! ```
//! use serde::Deserialize;
//! use tower_chat_history::{
//!     BoxError, ChatHistoryLayer, MemoryStore,
//!     adapt::Json,
//!     config::{HistoryConfig, MemoryConfig, Parts, read},
//! };
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {
//!     history: HistoryConfig,
//!     memory: MemoryConfig,
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let text = r#"
//!     [history]
//!     store_timeout_ms = 2_000
//!     context.budget = { window.tokens = 16_000, reply_reserve_tokens = 2_000 }
//!     limits.all.calls_per_minute = 10
//!     retain_last_turns = 500
//!
//!     [memory]
//!     limit_bytes = 100_000_000
//! "#;
//! let settings: Settings = read(toml::from_str::<toml::Table>(text)?)?;
//! let store: MemoryStore = settings.memory.build();
//! let setup = settings.history.build(Parts::new()).map_err(|error| error.within("history"))?;
//! let adapter = Json::new().input_mode(setup.input_mode);
//! let layer = ChatHistoryLayer::from_engine(setup.engine(store), adapter);
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! A setting that is missing has the default of the [option](crate::HistoryOptions). Unknown names and values out of
//! range are errors when settings are read. Settings that contradict each other or have no effect are errors when the
//! options are built. Each error has the path of the setting, and no value of it. The options of the stores in other
//! crates are data too, behind their features `config`.
//!
//! # Settings
//!
//! A setting has the name of its option. The name ends in the unit, if there is one. These settings are groups, or have
//! names or values of their own:
//!
//! | setting | option and values |
//! |---|---|
//! | `context` | [`ContextOptions`] |
//! | `context.budget` | [`ContextBudget`](crate::ContextBudget): also `calibrate`, and in tokens `reply_reserve_tokens`, `shrink_reply_to_tokens` |
//! | `context.budget.window` | `"by_model"`, `"unlimited"`, `{ tokens = 16_000 }` or `{ of_model = "gpt-4o" }` |
//! | `context.budget.models.NAME`, `context.budget.unknown` | [`ModelLimits`](crate::budget::ModelLimits): `context_tokens`, `prompt_tokens`, `reply_tokens` |
//! | `context.watermarks` | [`Watermarks`]: `high` and `low`, each `{ percent = 75 }`, `{ messages = 40 }` or `{ turns = 20 }` |
//! | `context.load_limit` | [`LoadLimit`](crate::store::LoadLimit): `messages`, `bytes`, `media_bytes` |
//! | `context.clear_results` | [`ClearResults`](crate::budget::ClearResults): `keep`, `clear_at_least_tokens`, `exclude_tools`, `placeholder`. Without this group, no results are cleared. |
//! | `context.old_reasoning_turns` | [`old_reasoning`](ContextOptions::old_reasoning): a number. Without it, old reasoning stays. |
//! | `policies` | [`Policies`], each with the name of its variant, such as `"keep_text"` |
//! | `policies.on_conflict` | `"rebase"`, `"reject"`, or `{ serialize = { max_waiting = 16, timeout_ms = 60_000 } }` |
//! | `policies.detach_limits` | [`DetachLimits`](crate::policy::DetachLimits): `max_streams`, `max_per_conversation`, `timeout_ms` (or `"none"`) |
//! | `summaries` | [`Summaries`]: `max_tokens`, `least_room_tokens`, `chunk_tokens`, `timeout_ms`. Without this group, there are no summaries. With it, a [summarizer](Parts::summarizer) is needed. |
//! | `summaries.when` | `{ after_reply_at_percent = 95 }`, `"before_call"` or `"before_every_call"` |
//! | `limits.all`, `limits.under.PREFIX` | [`Limits`]. Those of the longest prefix apply, and no others. |
//! | `limits.all.calls_per_minute_under` | a list of `{ parts = 1, calls = 600 }` |
//! | `limits.conversations` | [`ConversationQuota`]: a list of `{ prefix = "acme", parts = 2, max = 100 }`, by default for all prefixes. It needs a [store](Parts::store). |
//! | `readers.NAME` | a [row](crate::compat::ReaderRow) of the table of readers, which replaces the one of this name: `providers`, `hosts`, `models`, `hosted`, `compat` with its flags ([`Compat`](crate::compat::Compat)), `source`, `month` |
//! | `telemetry` | [`Telemetry`]: `spans`, `chat_span` |
//! | `telemetry.conversation_ids` | `"off"`, `"raw"` or `{ hashed_with_key = "a secret" }` |
//! | `telemetry.content` | [`CaptureContent`](crate::telemetry::CaptureContent) by its name in OpenTelemetry's conventions, such as `"NO_CONTENT"` |
//! | `store_timeout_ms`, `stream_idle_timeout_ms` | a number, or `"none"` |
//! | `retain_last_turns` | [`Retention::LastTurns`]. By default, all turns stay stored. Each `max_exchanges` must be more than 5/4 of it, because a conversation at its limit is not pruned. Turns with calls of tools have several exchanges, so set it to a multiple of that. |
//! | `input_mode` | the mode of the adapter: `"new"` or `"transcript"` ([`InputMode`]) |
//!
//! Options that are not data are set in code. A trimmer, a counter and the form of summaries are set on
//! [`HistoryConfig::context`], a meter on [`HistoryConfig::telemetry`], and the others on [`HistorySetup::options`]: a
//! hook, recall, dialects and the provider.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::context::{
    InputMode,
    budget::{Watermark, Watermarks},
    compat::Readers,
};
use serde::Deserialize;
#[doc(inline)]
pub use tower_chat_history_core::config::{ConfigError, Secret, field, read};
use tower_chat_history_core::{List, Prefix, Prune};

use crate::{
    cached::CachedStore,
    engine::{Engine, Retention},
    limits::{ConversationQuota, LimitRules, Limits, QuotaRule},
    memory::MemoryStore,
    options::{ContextOptions, HistoryOptions},
    policy::Policies,
    summary::{Summaries, Summarizer, SummaryOptions},
    telemetry::Telemetry,
};

/// The settings of [`HistoryOptions`], and those that an adapter and an engine need next to them. The
/// [module docs](self) have a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryConfig {
    /// [`HistoryOptions::context`], to which code can add a trimmer, a counter and a format.
    pub context: ContextOptions,
    policies: Policies,
    summaries: Option<SummaryOptions>,
    limits: LimitSettings,
    readers: Readers,
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

/// The values that were built from settings. [`HistorySetup::engine`] uses the options and the retention.
#[derive(Clone, Debug)]
#[must_use = "the options and the retention have no effect without an engine"]
#[non_exhaustive]
pub struct HistorySetup {
    /// The options for the layer or the engine.
    pub options: HistoryOptions,
    /// The retention for [`Engine::with_retention`](crate::Engine::with_retention), if there is one.
    pub retention: Option<Retention>,
    /// The mode for the adapter.
    pub input_mode: InputMode,
}

impl HistorySetup {
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
    pub fn build(&self, parts: Parts) -> Result<HistorySetup, ConfigError> {
        check_context(&self.context).map_err(|error| error.within("context"))?;
        if let Some(turns) = self.retain_last_turns {
            self.limits.check_exchanges(turns).map_err(|error| error.within("limits"))?;
        }
        let limits = self.limits.rules().map_err(|error| error.within("limits"))?;
        let quota = self.limits.quota(parts.store).map_err(|error| error.within("limits"))?;

        let mut options = HistoryOptions::new()
            .context(self.context.clone())
            .policies(self.policies.clone())
            .limits(limits)
            .readers(self.readers.clone())
            .telemetry(self.telemetry.clone())
            .store_timeout(self.store_timeout)
            .save_attempts(self.save_attempts)
            .stream_idle_timeout(self.stream_idle_timeout);
        options.conversation_quota = quota;
        options.summaries = self.summaries(parts.summaries).map_err(|error| error.within("summaries"))?;

        let retention = self.retain_last_turns.map(Retention::LastTurns);
        Ok(HistorySetup { options, retention, input_mode: self.input_mode })
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
            readers: options.readers,
            telemetry: options.telemetry,
            store_timeout: options.store_timeout,
            save_attempts: options.save_attempts,
            stream_idle_timeout: options.stream_idle_timeout,
            retain_last_turns: None,
            input_mode: InputMode::default(),
        }
    }
}

/// Checks that no setting contradicts another one.
fn check_context(context: &ContextOptions) -> Result<(), ConfigError> {
    context.budget.check().map_err(|error| error.within("budget"))?;
    check_watermarks(context).map_err(|error| error.within("watermarks"))
}

/// Checks that the watermarks are in order, and that a prompt or a window can exceed the high one.
fn check_watermarks(context: &ContextOptions) -> Result<(), ConfigError> {
    let default = Watermarks::default();
    let high = context.watermarks.high();
    let low = context.watermarks.low();

    // Each of them is valid by itself.
    if Watermarks::new(high, low).is_err() {
        let path = if low == default.low() { "high" } else { "low" };
        return Err(ConfigError::new(path, "the low watermark must not exceed the high one"));
    }

    if context.budget.is_unlimited() {
        let reason = "it has no effect: without a limit, there is no percentage of it";

        let is_high_percentage = matches!(high, Watermark::Percent(_)) && context.watermarks != default;
        let path = if high == default.high() { "low" } else { "high" };
        ConfigError::unless(!is_high_percentage, path, reason)?;

        let is_low_percentage = matches!(low, Watermark::Percent(_)) && low != default.low();
        ConfigError::unless(!is_low_percentage, "low", reason)?;
    }

    if let Watermark::Messages(number) | Watermark::Turns(number) = high {
        let most = context.load_limit.messages();
        let reason = format!("it can never be exceeded: a call loads at most {most} messages (`load_limit.messages`)");
        ConfigError::unless(number < most, "high", reason)?;
    }
    Ok(())
}

/// The settings of [`LimitRules`] and of a [`ConversationQuota`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitSettings {
    all: Limits,
    /// By the text form of the prefix.
    under: BTreeMap<String, Limits>,
    conversations: Vec<QuotaRule>,
}

impl LimitSettings {
    fn rules(&self) -> Result<LimitRules, ConfigError> {
        let mut rules = LimitRules::new();
        if self.all != Limits::new() {
            rules = rules.under(Prefix::all(), self.all.clone());
        }
        for (text, limits) in &self.under {
            let reason = "the text is not that of a prefix, such as `acme/user-42`";
            let prefix: Prefix = text.parse().map_err(|_| ConfigError::new(format!("under.{text}"), reason))?;
            let reason = "the text is empty: the limits of all conversations are those of `all`";
            ConfigError::unless(!prefix.is_all(), "under", reason)?;
            rules = rules.under(prefix, limits.clone());
        }
        Ok(rules)
    }

    fn quota(&self, store: Option<Arc<dyn List>>) -> Result<Option<ConversationQuota>, ConfigError> {
        if self.conversations.is_empty() {
            return Ok(None);
        }
        let reason = "it needs a store that lists its conversations (`Parts::store`)";
        let store = store.ok_or_else(|| ConfigError::new("conversations", reason))?;

        let mut quota = ConversationQuota::new(store);
        for (at, rule) in self.conversations.iter().enumerate() {
            let is_first =
                self.conversations[..at].iter().all(|other| (&other.prefix, other.parts) != (&rule.prefix, rule.parts));
            let reason = "another element has the same prefix and number of parts";
            ConfigError::unless(is_first, &format!("conversations[{at}]"), reason)?;
            quota = quota.under(rule.prefix.clone(), rule.parts, rule.conversations);
        }
        Ok(Some(quota))
    }

    /// Checks that a conversation is pruned before its number of exchanges reaches the limit. Nothing is pruned after
    /// that, because no exchange is added.
    fn check_exchanges(&self, turns: usize) -> Result<(), ConfigError> {
        let turns = turns as u64;
        let most = turns.saturating_add(turns / 4);
        let under = self.under.iter().map(|(text, limits)| (format!("under.{text}"), limits));
        for (path, limits) in under.chain([("all".to_owned(), &self.all)]) {
            if limits.max_exchanges.is_some_and(|exchanges| exchanges <= most) {
                let reason = format!("it must be more than {most}, because of `retain_last_turns`, which is {turns}");
                return Err(ConfigError::new("max_exchanges", reason).within(&path));
            }
        }
        Ok(())
    }
}

/// The settings of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The largest memory of all conversations. The default is [`MemoryStore::DEFAULT_LIMIT`].
    #[serde(deserialize_with = "field::positive")]
    pub limit_bytes: usize,
}

/// The settings of a [`CachedStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CacheConfig {
    /// The largest memory of the cached windows. The default is 64 MiB.
    #[serde(deserialize_with = "field::positive")]
    pub limit_bytes: usize,
}

impl MemoryConfig {
    /// Creates the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::with_limit(self.limit_bytes)
    }
}

impl CacheConfig {
    /// Creates a cache for this store.
    #[must_use]
    pub fn build<S>(self, store: S) -> CachedStore<S> {
        CachedStore::with_limit(store, self.limit_bytes)
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { limit_bytes: MemoryStore::DEFAULT_LIMIT }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { limit_bytes: CachedStore::<MemoryStore>::DEFAULT_LIMIT }
    }
}

//! Limits, as data.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use tower_chat_history_core::{List, Prefix, config::ConfigError};

use super::number::{positive, size};
use crate::limits::{ConversationQuota, LimitRules, Limits};

/// The settings of [`LimitRules`], and of a [`ConversationQuota`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitRulesConfig {
    /// The limits of all conversations without limits of their own.
    pub all: LimitsConfig,
    /// The limits of the conversations under prefixes, by the text form of the prefix. They replace those of all
    /// others.
    pub under: BTreeMap<String, LimitsConfig>,
    /// The largest numbers of conversations. They need a [store](super::Parts::store).
    pub conversations: Vec<QuotaConfig>,
}

/// The settings of [`Limits`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// [`Limits::max_message_bytes`].
    pub max_message_bytes: Option<u64>,
    /// [`Limits::max_input_bytes`].
    pub max_input_bytes: Option<u64>,
    /// [`Limits::max_tool_rounds`].
    pub max_tool_rounds: Option<u64>,
    /// [`Limits::max_exchanges`].
    pub max_exchanges: Option<u64>,
    /// [`Limits::max_conversation_bytes`].
    pub max_conversation_bytes: Option<u64>,
    /// [`Limits::calls_per_minute`].
    pub calls_per_minute: Option<u32>,
    /// [`Limits::calls_per_minute_under`], for each number of parts.
    pub calls_per_minute_under: Vec<RateConfig>,
}

/// The settings of [`Limits::calls_per_minute_under`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RateConfig {
    /// The number of parts that the ids have in common.
    pub parts: u32,
    /// The number of calls per minute.
    pub calls: u32,
}

/// The settings of [`ConversationQuota::under`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct QuotaConfig {
    /// The text form of the prefix to which the limit applies. The default is the empty text: it applies to all.
    #[serde(default)]
    pub prefix: String,
    /// The number of parts that the ids have in common.
    pub parts: u32,
    /// The largest number of conversations.
    pub max: u64,
}

impl LimitRulesConfig {
    /// Builds the rules, and the quota if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if a size is 0, if a prefix is not valid, if two settings are about the same thing, or if there
    /// is a quota and no store.
    pub fn build(&self, store: Option<&Arc<dyn List>>) -> Result<(LimitRules, Option<ConversationQuota>), ConfigError> {
        let all = self.all.build().map_err(|error| error.within("all"))?;
        let mut rules = if all == Limits::new() { LimitRules::new() } else { all.into() };
        for (text, limits) in &self.under {
            let path = format!("under.{text}");
            let limits = limits.build().map_err(|error| error.within(&path))?;
            rules = rules.under(prefix(text, &path)?, limits);
        }
        Ok((rules, self.quota(store)?))
    }

    fn quota(&self, store: Option<&Arc<dyn List>>) -> Result<Option<ConversationQuota>, ConfigError> {
        if self.conversations.is_empty() {
            return Ok(None);
        }
        let reason = "it needs a store that lists its conversations (`Parts::store`)";
        let store = store.ok_or_else(|| ConfigError::new("conversations", reason))?;
        let mut quota = ConversationQuota::new(Arc::clone(store));
        for (at, rule) in self.conversations.iter().enumerate() {
            let path = format!("conversations[{at}]");
            let same = |other: &QuotaConfig| (&other.prefix, other.parts) == (&rule.prefix, rule.parts);
            let is_first = !self.conversations[..at].iter().any(same);
            ConfigError::unless(is_first, &path, "another element has the same prefix and number of parts")?;
            quota = quota.under(prefix(&rule.prefix, &format!("{path}.prefix"))?, size(rule.parts.into()), rule.max);
        }
        Ok(Some(quota))
    }
}

impl LimitsConfig {
    /// Builds the limits.
    ///
    /// # Errors
    ///
    /// Returns an error if a size is 0, or if two rates have the same number of parts.
    pub fn build(&self) -> Result<Limits, ConfigError> {
        let mut limits = Limits::new();
        let sizes: [(&str, Option<u64>, fn(Limits, u64) -> Limits); 4] = [
            ("max_message_bytes", self.max_message_bytes, Limits::max_message_bytes),
            ("max_input_bytes", self.max_input_bytes, Limits::max_input_bytes),
            ("max_exchanges", self.max_exchanges, Limits::max_exchanges),
            ("max_conversation_bytes", self.max_conversation_bytes, Limits::max_conversation_bytes),
        ];
        for (path, number, set) in sizes {
            if let Some(number) = number {
                positive(number, path)?;
                limits = set(limits, number);
            }
        }
        if let Some(rounds) = self.max_tool_rounds {
            limits = limits.max_tool_rounds(rounds);
        }
        if let Some(calls) = self.calls_per_minute {
            limits = limits.calls_per_minute(calls);
        }
        for (at, RateConfig { parts, calls }) in self.calls_per_minute_under.iter().enumerate() {
            let is_first = !self.calls_per_minute_under[..at].iter().any(|other| other.parts == *parts);
            let path = format!("calls_per_minute_under[{at}].parts");
            ConfigError::unless(is_first, &path, "another element has the same number of parts")?;
            limits = limits.calls_per_minute_under(size((*parts).into()), *calls);
        }
        Ok(limits)
    }
}

fn prefix(text: &str, path: &str) -> Result<Prefix, ConfigError> {
    text.parse().map_err(|_| ConfigError::new(path, "the text is not that of a prefix, such as `acme/user-42`"))
}

//! Limits, as data.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use tower_chat_history_core::{List, Prefix, config::ConfigError};

use super::number::{OrNone, positive, size};
use crate::limits::{ConversationQuota, LimitRules, Limits};

/// The settings of [`LimitRules`], and of a [`ConversationQuota`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitRulesConfig {
    /// The limits of all conversations without limits of their own.
    pub all: LimitsConfig,
    /// The limits of the conversations under prefixes, by the text form of the prefix. A limit that is missing is that
    /// of the next shorter prefix here, and at last that of `all`. The text `none` lifts it.
    pub under: BTreeMap<String, LimitsConfig>,
    /// The largest numbers of conversations. They need a [store](super::Parts::store).
    pub conversations: Vec<QuotaConfig>,
}

/// The settings of [`Limits`]. The text `none` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// [`Limits::max_message_bytes`].
    pub max_message_bytes: Option<OrNone>,
    /// [`Limits::max_input_bytes`].
    pub max_input_bytes: Option<OrNone>,
    /// [`Limits::max_tool_rounds`].
    pub max_tool_rounds: Option<OrNone>,
    /// [`Limits::max_exchanges`].
    pub max_exchanges: Option<OrNone>,
    /// [`Limits::max_conversation_bytes`].
    pub max_conversation_bytes: Option<OrNone>,
    /// [`Limits::calls_per_minute`].
    pub calls_per_minute: Option<OrNone>,
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
    pub calls: OrNone,
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
        for (text, limits) in self.complete()? {
            let path = format!("under.{text}");
            rules = rules.under(prefix(&text, &path)?, limits.build().map_err(|error| error.within(&path))?);
        }
        Ok((rules, self.quota(store)?))
    }

    /// Returns the settings of each prefix, with those that are missing taken from shorter ones.
    pub(super) fn complete(&self) -> Result<BTreeMap<String, LimitsConfig>, ConfigError> {
        let mut complete = BTreeMap::<String, LimitsConfig>::new();
        // In this order, shorter prefixes come before the longer ones that they contain.
        for (text, limits) in &self.under {
            let path = format!("under.{text}");
            // The settings of the prefix itself are checked under its own path.
            limits.build().map_err(|error| error.within(&path))?;
            let prefix = prefix(text, &path)?;
            let reason = "the text is empty: the limits of all conversations are those of `all`";
            let id = prefix.as_id().ok_or_else(|| ConfigError::new("under", reason))?;
            let shorter = Prefix::containing(id).filter_map(|shorter| complete.get(shorter)).last();
            let limits = limits.or(shorter.unwrap_or(&self.all));
            complete.insert(text.clone(), limits);
        }
        Ok(complete)
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
    /// Returns these settings, with those that are missing taken from the others.
    fn or(&self, others: &Self) -> Self {
        let mut rates = self.calls_per_minute_under.clone();
        let is_missing = |rate: &&RateConfig| !rates.iter().any(|own| own.parts == rate.parts);
        let missing: Vec<_> = others.calls_per_minute_under.iter().filter(is_missing).copied().collect();
        rates.extend(missing);
        Self {
            max_message_bytes: self.max_message_bytes.or(others.max_message_bytes),
            max_input_bytes: self.max_input_bytes.or(others.max_input_bytes),
            max_tool_rounds: self.max_tool_rounds.or(others.max_tool_rounds),
            max_exchanges: self.max_exchanges.or(others.max_exchanges),
            max_conversation_bytes: self.max_conversation_bytes.or(others.max_conversation_bytes),
            calls_per_minute: self.calls_per_minute.or(others.calls_per_minute),
            calls_per_minute_under: rates,
        }
    }

    /// Builds the limits.
    ///
    /// # Errors
    ///
    /// Returns an error if a size is 0, if a rate is not a number of 32 bits, or if two rates have the same number of
    /// parts.
    pub fn build(&self) -> Result<Limits, ConfigError> {
        let mut limits = Limits::new();
        let sizes: [(&str, Option<OrNone>, fn(Limits, u64) -> Limits); 4] = [
            ("max_message_bytes", self.max_message_bytes, Limits::max_message_bytes),
            ("max_input_bytes", self.max_input_bytes, Limits::max_input_bytes),
            ("max_exchanges", self.max_exchanges, Limits::max_exchanges),
            ("max_conversation_bytes", self.max_conversation_bytes, Limits::max_conversation_bytes),
        ];
        for (path, number, set) in sizes {
            if let Some(number) = number.and_then(OrNone::number) {
                positive(number, path)?;
                limits = set(limits, number);
            }
        }
        if let Some(rounds) = self.max_tool_rounds.and_then(OrNone::number) {
            limits = limits.max_tool_rounds(rounds);
        }
        // A rate that is not set would be that of a shorter prefix.
        limits = match self.calls_per_minute {
            Some(OrNone::Number(calls)) => limits.calls_per_minute(rate(calls, "calls_per_minute")?),
            Some(OrNone::None) => limits.lift_calls_per_minute(),
            None => limits,
        };
        for (at, RateConfig { parts, calls }) in self.calls_per_minute_under.iter().enumerate() {
            let is_first = !self.calls_per_minute_under[..at].iter().any(|other| other.parts == *parts);
            let path = format!("calls_per_minute_under[{at}].parts");
            ConfigError::unless(is_first, &path, "another element has the same number of parts")?;
            let parts = size((*parts).into());
            limits = match calls {
                OrNone::Number(calls) => {
                    let calls = rate(*calls, &format!("calls_per_minute_under[{at}].calls"))?;
                    limits.calls_per_minute_under(parts, calls)
                }
                OrNone::None => limits.lift_calls_per_minute_under(parts),
            };
        }
        Ok(limits)
    }
}

fn rate(calls: u64, path: &str) -> Result<u32, ConfigError> {
    u32::try_from(calls).map_err(|_| ConfigError::new(path, format!("it must be at most {}", u32::MAX)))
}

fn prefix(text: &str, path: &str) -> Result<Prefix, ConfigError> {
    text.parse().map_err(|_| ConfigError::new(path, "the text is not that of a prefix, such as `acme/user-42`"))
}

//! Limits, as data.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use tower_chat_history_core::{List, Prefix, config::ConfigError};

use crate::limits::{ConversationQuota, LimitRules, Limits, QuotaRule};

/// The settings of [`LimitRules`] and of a [`ConversationQuota`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitSettings {
    all: Limits,
    /// By the text form of the prefix.
    under: BTreeMap<String, Limits>,
    conversations: Vec<QuotaRule>,
}

impl LimitSettings {
    pub(super) fn rules(&self) -> Result<LimitRules, ConfigError> {
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

    pub(super) fn quota(&self, store: Option<Arc<dyn List>>) -> Result<Option<ConversationQuota>, ConfigError> {
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
    pub(super) fn check_exchanges(&self, turns: usize) -> Result<(), ConfigError> {
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

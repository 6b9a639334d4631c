//! Budgets as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use tower_chat_history_core::config::{ConfigError, field};

use super::{ContextBudget, ContextWindow, ModelLimits, ModelTable};

pub(super) fn of_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ModelLimits, D::Error> {
    field::positive(deserializer).map(ModelLimits::new)
}

pub(super) fn of_model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ModelLimits, D::Error> {
    let name = String::deserialize(deserializer)?;
    let limits = ModelTable::new().get(&name);
    limits.map_err(|_| D::Error::custom("unknown model, expected a model of the table: set `tokens` instead"))
}

/// The models are added to those of the table.
impl<'de> Deserialize<'de> for ModelTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Self::new();
        for (name, limits) in BTreeMap::<String, ModelLimits>::deserialize(deserializer)? {
            table.insert(name, limits);
        }
        Ok(table)
    }
}

impl ContextBudget {
    /// Checks that no setting contradicts another one.
    ///
    /// # Errors
    ///
    /// Returns the first setting that has no effect, or that leaves no room for a prompt.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !matches!(self.window, ContextWindow::ByModel) {
            let reason = "it has no effect, because all calls have the same context window";
            ConfigError::unless(self.models.added().next().is_none(), "models", reason)?;
            ConfigError::unless(self.unknown.is_none(), "unknown", reason)?;
        }

        for (name, limits) in self.models.added() {
            check_model(limits).map_err(|error| error.within(&format!("models.{name}")))?;
        }
        if let Some(limits) = self.unknown {
            check_model(limits).map_err(|error| error.within("unknown"))?;
        }

        for (path, tokens) in
            [("reply_reserve_tokens", self.reply_reserve), ("shrink_reply_to_tokens", self.least_reply)]
        {
            let Some(tokens) = tokens else { continue };
            ConfigError::unless(!self.is_unlimited(), path, "it has no effect without a limit")?;
            let windows = self.configured().into_iter().map(|limits| limits.context);
            let window = windows.min().unwrap_or_else(|| self.models.largest_context());
            let reason = format!("it must be less than each context window, and one has {window} tokens");
            ConfigError::unless(tokens < window, path, reason)?;
        }

        if let (Some(reserve), Some(least)) = (self.reply_reserve, self.least_reply) {
            let reason = format!("it must not exceed `reply_reserve_tokens`, which is {reserve}");
            ConfigError::unless(least <= reserve, "shrink_reply_to_tokens", reason)?;
        }
        Ok(())
    }

    /// Returns `true` if there is no limit.
    pub(crate) const fn is_unlimited(&self) -> bool {
        matches!(self.window, ContextWindow::Unlimited)
    }

    /// Returns the tokens of the smallest prompt limit that these settings name, if they name one.
    pub(crate) fn least_prompt(&self) -> Option<u32> {
        let reserve = self.reply_reserve.unwrap_or_default();
        let prompts = self.configured().into_iter().map(|limits| {
            let room = limits.context.saturating_sub(reserve);
            limits.input.map_or(room, |input| input.min(room))
        });
        prompts.min()
    }

    /// Returns the limits that these settings name.
    fn configured(&self) -> Vec<ModelLimits> {
        match self.window {
            ContextWindow::Tokens(limits) | ContextWindow::OfModel(limits) => vec![limits],
            ContextWindow::ByModel => self.models.added().map(|(_, limits)| limits).chain(self.unknown).collect(),
            ContextWindow::Unlimited => Vec::new(),
        }
    }
}

fn check_model(limits: ModelLimits) -> Result<(), ConfigError> {
    for (path, tokens) in [("prompt_tokens", limits.input), ("reply_tokens", limits.output)] {
        let reason = format!("it must not exceed `context_tokens`, which is {}", limits.context);
        ConfigError::unless(tokens <= Some(limits.context), path, reason)?;
    }
    Ok(())
}

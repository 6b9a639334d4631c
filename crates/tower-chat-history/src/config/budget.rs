//! The size limit of prompts, as data.

use std::collections::BTreeMap;

use serde::Deserialize;
use tower_chat_history_context::budget::{ContextBudget, ModelLimits, ModelTable};
use tower_chat_history_core::config::ConfigError;

use super::number::positive;

/// The settings of a [`ContextBudget`].
///
/// At most one of `window_tokens`, `window_of_model` and `unlimited` sets the context window. Without them, it is
/// that of the model that each request names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BudgetConfig {
    /// The context window of all calls: [`ContextBudget::tokens`].
    pub window_tokens: Option<u32>,
    /// The model whose context window all calls have: [`ContextBudget::for_model`].
    pub window_of_model: Option<String>,
    /// `true` for no limit: [`ContextBudget::unlimited`].
    pub unlimited: bool,
    /// Models in addition to those of the table, by name: [`ContextBudget::model`].
    pub models: BTreeMap<String, ModelConfig>,
    /// The limits of models that are not in the table: [`ContextBudget::unknown`].
    pub unknown: Option<ModelConfig>,
    /// The tokens for the reply if the request does not limit it: [`ContextBudget::reply_reserve`]. They are less than
    /// every context window of these settings.
    pub reply_reserve_tokens: Option<u32>,
    /// The least tokens for the reply: [`ContextBudget::shrink_reply_to`].
    pub shrink_reply_to_tokens: Option<u32>,
    /// If counts are corrected: [`ContextBudget::calibrate`].
    pub calibrate: Option<bool>,
}

/// The settings of a model: [`ModelLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The context window, prompt and reply together.
    pub context_tokens: u32,
    /// The largest prompt. The default is the context window.
    #[serde(default)]
    pub prompt_tokens: Option<u32>,
    /// The longest reply. The default is the context window.
    #[serde(default)]
    pub reply_tokens: Option<u32>,
}

impl BudgetConfig {
    /// Builds the budget.
    ///
    /// # Errors
    ///
    /// Returns an error if a window is 0, if several settings set it, if a reserve is not less than the window, or if a
    /// setting has no effect.
    pub fn build(&self) -> Result<ContextBudget, ConfigError> {
        let mut budget = self.window()?;
        self.check_reserves()?;
        for (name, model) in &self.models {
            budget = budget.model(name, model.limits());
        }
        if let Some(model) = &self.unknown {
            budget = budget.unknown(model.limits());
        }
        if let Some(tokens) = self.reply_reserve_tokens {
            budget = budget.reply_reserve(tokens);
        }
        if let Some(tokens) = self.shrink_reply_to_tokens {
            budget = budget.shrink_reply_to(tokens);
        }
        if let Some(calibrate) = self.calibrate {
            budget = budget.calibrate(calibrate);
        }
        Ok(budget)
    }

    fn window(&self) -> Result<ContextBudget, ConfigError> {
        let others = "only one of `window_tokens`, `window_of_model` and `unlimited` can be set";
        let is_fixed = self.window_tokens.is_some() || self.window_of_model.is_some();
        ConfigError::unless(!(self.unlimited && is_fixed), "unlimited", others)?;
        if is_fixed || self.unlimited {
            let without_effect = "it has no effect, because all calls have the same context window";
            ConfigError::unless(self.models.is_empty(), "models", without_effect)?;
            ConfigError::unless(self.unknown.is_none(), "unknown", without_effect)?;
        }
        match (self.window_tokens, &self.window_of_model) {
            (Some(_), Some(_)) => Err(ConfigError::new("window_of_model", others)),
            (Some(tokens), None) => {
                positive(tokens.into(), "window_tokens")?;
                Ok(ContextBudget::tokens(tokens))
            }
            (None, Some(model)) => ContextBudget::for_model(model)
                .map_err(|_| ConfigError::new("window_of_model", "the model is not in the table: set `window_tokens`")),
            (None, None) if self.unlimited => Ok(ContextBudget::unlimited()),
            (None, None) => Ok(ContextBudget::by_model()),
        }
    }

    /// Returns the context windows that these settings name, with their paths.
    fn windows(&self) -> Vec<(String, u32)> {
        let of_model = self.window_of_model.as_ref().and_then(|model| ModelTable::new().get(model).ok());
        let fixed = self.window_tokens.or_else(|| of_model.map(|limits| limits.context));
        let fixed = fixed.map(|tokens| ("the context window".to_owned(), tokens));
        let unknown = self.unknown.map(|model| ("`unknown.context_tokens`".to_owned(), model.context_tokens));
        let models = self.models.iter();
        let models = models.map(|(name, model)| (format!("`models.{name}.context_tokens`"), model.context_tokens));
        fixed.into_iter().chain(unknown).chain(models).collect()
    }

    fn check_reserves(&self) -> Result<(), ConfigError> {
        for (name, model) in &self.models {
            model.check().map_err(|error| error.within(&format!("models.{name}")))?;
        }
        if let Some(model) = &self.unknown {
            model.check().map_err(|error| error.within("unknown"))?;
        }
        for (path, reserve) in [
            ("reply_reserve_tokens", self.reply_reserve_tokens),
            ("shrink_reply_to_tokens", self.shrink_reply_to_tokens),
        ] {
            let Some(reserve) = reserve else { continue };
            positive(reserve.into(), path)?;
            ConfigError::unless(!self.unlimited, path, "it has no effect without a limit")?;
            for (window, tokens) in self.windows() {
                let reason = format!("it must be less than {window}, which has {tokens} tokens");
                ConfigError::unless(reserve < tokens, path, reason)?;
            }
            if self.window_tokens.is_none() && self.window_of_model.is_none() {
                let largest = ModelTable::new().largest_context();
                let reason = format!("it must be less than the largest window of all known models, {largest} tokens");
                ConfigError::unless(reserve < largest, path, reason)?;
            }
        }
        match (self.reply_reserve_tokens, self.shrink_reply_to_tokens) {
            (Some(reserve), Some(least)) => {
                let reason = format!("it must not exceed `reply_reserve_tokens`, which is {reserve}");
                ConfigError::unless(least <= reserve, "shrink_reply_to_tokens", reason)
            }
            _ => Ok(()),
        }
    }

    /// Returns the tokens of the smallest prompt limit that these settings name, if they name one.
    pub(super) fn least_prompt(&self) -> Option<u32> {
        let reserve = self.reply_reserve_tokens.unwrap_or_default();
        let windows = self.windows().into_iter().map(|(_, tokens)| tokens.saturating_sub(reserve));
        let prompts = self.models.values().chain(&self.unknown).filter_map(|model| model.prompt_tokens);
        windows.chain(prompts).min()
    }
}

impl ModelConfig {
    fn limits(&self) -> ModelLimits {
        let mut limits = ModelLimits::new(self.context_tokens);
        (limits.input, limits.output) = (self.prompt_tokens, self.reply_tokens);
        limits
    }

    fn check(&self) -> Result<(), ConfigError> {
        positive(self.context_tokens.into(), "context_tokens")?;
        for (path, tokens) in [("prompt_tokens", self.prompt_tokens), ("reply_tokens", self.reply_tokens)] {
            let Some(tokens) = tokens else { continue };
            positive(tokens.into(), path)?;
            let reason = format!("it must not exceed `context_tokens`, which is {}", self.context_tokens);
            ConfigError::unless(tokens <= self.context_tokens, path, reason)?;
        }
        Ok(())
    }
}

//! Limits of the prompt, and the rules by which a window is made to fit them.
//!
//! A model's context window contains the prompt and the reply. A [`ContextBudget`] defines the size of the context
//! window, and how much of it is reserved for the reply. The rest, in tokens of the call's counter, is the limit of the
//! prompt. All parts of the prompt count: head, tools, response format, summary, window, input. If a prompt exceeds the
//! limit, its window is compacted. If that is not enough, the call fails with [`DoesNotFit`] before the model is
//! called. The error has the size of each part.
//!
//! A prompt that exceeds the limit is sent in one case only: if the counter is an estimate, and the provider has
//! counted fewer tokens for the beginning of this prompt, the [correction](ContextBudget::calibrate) raises the limit
//! of this prompt, by at most a fourth. The correction of a count that is too low lowers the limit.
//!
//! ```
//! use tower_chat_history::budget::{ContextBudget, ModelLimits};
//!
//! // The default: the context window of the model that a request names, from a table.
//! // The program can add models to the table.
//! let limits = ModelLimits::new(32_000).output(4_000);
//! let by_model = ContextBudget::by_model().model("acme-large", limits);
//! // Alternatively, the same context window for every call.
//! let fixed = ContextBudget::tokens(8_192).reply_reserve(1_024).shrink_reply_to(256);
//! # let _ = (by_model, fixed);
//! ```
//!
//! [`HistoryOptions`](crate::HistoryOptions) contain the budget and the [`Watermarks`].
//!
//! # Table of models
//!
//! A table has the limits of models. A model is found by its name, or by the beginning of its name: the entry `gpt-4o`
//! also applies to `gpt-4o-2024-08-06`.
//!
//! Upper and lower case are equal, and so are dot and hyphen (`claude-sonnet-4.5`). Prefixes and suffixes that gateways
//! and clouds add are ignored: `openai/gpt-4o`, `models/gemini-2.5-pro`,
//! `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929`, `gpt-oss-20b:free`, and for fine-tuned
//! models `ft:gpt-4o:acme`.
//!
//! The table has models of OpenAI, Anthropic, Google, Mistral, DeepSeek, xAI, Meta, Alibaba, Cohere, Amazon, Moonshot
//! AI, Z.ai and MiniMax, as of October 2026, with the context windows of the makers' own services. Other services may
//! have smaller ones. [`ContextBudget::model`] adds a model.
//!
//! Ollama's names (`qwen3:0.6b`, `gpt-oss:20b`) are not in the table, because Ollama's configuration sets the context
//! window (`num_ctx` or `OLLAMA_CONTEXT_LENGTH`). Its default can be as small as 4,096 tokens, and Ollama truncates
//! longer prompts without an error. Set the same number here with [`tokens`](ContextBudget::tokens),
//! [`model`](ContextBudget::model) or [`unknown`](ContextBudget::unknown).
//!
//! # Reply reserve
//!
//! The reply reserve is the limit that the request itself has (`max_completion_tokens`, or else `max_tokens`). If the
//! request has none, it is the [configured](ContextBudget::reply_reserve) reserve, or else a
//! [default](DEFAULT_REPLY_RESERVE). If [shrinking](ContextBudget::shrink_reply_to) is allowed, the reply's limit is
//! lowered before messages are left out.
//!
//! # Compaction
//!
//! [`Watermarks`] define when a window is compacted, and to what size. By default, a window is compacted when the
//! prompt exceeds its limit, down to 75% of the limit. The window then grows again for many turns. During that time its
//! beginning stays the same, so that the provider's prefix cache has it. If the window slid with every turn, the prefix
//! cache would have only the head.

mod calibration;
mod compaction;
#[cfg(feature = "config")]
mod config;
mod limits;
mod models;
mod prompt;
mod trimmer;

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

pub(crate) use self::{
    calibration::{Calibration, CalibrationKey, Correction, PromptStart, UsageReport},
    limits::CallLimits,
    models::{ModelTable, normalized_names},
};
pub use self::{
    compaction::{ClearResults, Watermark, Watermarks, WatermarksError},
    limits::{DEFAULT_REPLY_RESERVE, WindowSource},
    models::{ModelLimits, UnknownModel},
    prompt::{DoesNotFit, PromptTokens, TrimReason, Trimming},
    trimmer::{Importance, KeepFirst, KeepTurn, TrimTurn, Trimmer},
};

/// The context window of a call, and how much of it is reserved for the reply. See the [module docs](self).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct ContextBudget {
    window: ContextWindow,
    models: ModelTable,
    unknown: Option<ModelLimits>,
    #[cfg_attr(feature = "config", serde(rename = "reply_reserve_tokens", deserialize_with = "field::some_positive"))]
    reply_reserve: Option<u32>,
    #[cfg_attr(
        feature = "config",
        serde(rename = "shrink_reply_to_tokens", deserialize_with = "field::some_positive")
    )]
    least_reply: Option<u32>,
    calibrate: bool,
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
enum ContextWindow {
    ByModel,
    #[cfg_attr(feature = "config", serde(deserialize_with = "config::of_tokens"))]
    Tokens(ModelLimits),
    #[cfg_attr(feature = "config", serde(deserialize_with = "config::of_model"))]
    OfModel(ModelLimits),
    Unlimited,
}

impl ContextBudget {
    /// Uses the context window of the model that each request names, from the [table](self#table-of-models). A model
    /// that is not in the table has the limits of [unknown](Self::unknown) models. If these are not set, only the load
    /// limit bounds the prompt, the turn's report shows [`WindowSource::None`], and one warning with the model's name
    /// is logged.
    #[must_use]
    pub fn by_model() -> Self {
        Self::of(ContextWindow::ByModel)
    }

    /// Uses the context window of this model for all calls, whatever model they name.
    ///
    /// # Errors
    ///
    /// Returns an error if the model is not in the [table](self#table-of-models). In that case, use
    /// [`tokens`](Self::tokens).
    pub fn for_model(name: &str) -> Result<Self, UnknownModel> {
        ModelTable::new().get(name).map(|limits| Self::of(ContextWindow::OfModel(limits)))
    }

    /// Uses a context window of this many tokens, prompt and reply together, for all calls.
    ///
    /// If the window is not larger than the [reply reserve](Self::reply_reserve), and the reserve may not
    /// [shrink](Self::shrink_reply_to), no prompt fits: each call fails with [`DoesNotFit`] before the model is called.
    #[must_use]
    pub fn tokens(context_window: u32) -> Self {
        Self::of(ContextWindow::Tokens(ModelLimits::new(context_window)))
    }

    /// Sets no limit. Only the load limit bounds the window, and no tokens are counted before a call.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::of(ContextWindow::Unlimited)
    }

    fn of(window: ContextWindow) -> Self {
        Self {
            window,
            models: ModelTable::new(),
            unknown: None,
            reply_reserve: None,
            least_reply: None,
            calibrate: true,
        }
    }

    /// Adds a model to the table, or replaces its limits. This has an effect only if the budget is [by
    /// model](Self::by_model).
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, limits: ModelLimits) -> Self {
        self.models.insert(name, limits);
        self
    }

    /// Sets the limits of models that are not in the [table](self#table-of-models), and of requests that name no model.
    /// This has an effect only if the budget is [by model](Self::by_model). The default is none: such calls have no
    /// limit.
    ///
    /// ```
    /// use tower_chat_history::budget::{ContextBudget, ModelLimits};
    ///
    /// let budget = ContextBudget::by_model().unknown(ModelLimits::new(8_192).output(1_024));
    /// # let _ = budget;
    /// ```
    #[must_use]
    pub const fn unknown(mut self, limits: ModelLimits) -> Self {
        self.unknown = Some(limits);
        self
    }

    /// Sets the number of tokens that are reserved for the reply if the request does not limit it. The default is the
    /// smallest of 4,096, the longest reply of the model, and a quarter of its context window.
    #[must_use]
    pub const fn reply_reserve(mut self, tokens: u32) -> Self {
        self.reply_reserve = Some(tokens);
        self
    }

    /// Sets the smallest reply reserve, in tokens (at least 1). If a prompt does not fit, the reserve shrinks as far as
    /// needed, but not below this number, before messages are left out. The field of the request that limits the reply
    /// (such as `max_tokens`) is lowered with it. If the request has no such field, only the reserve shrinks. By
    /// default, the reserve does not shrink, and no field of a request changes except its messages.
    #[must_use]
    pub const fn shrink_reply_to(mut self, tokens: u32) -> Self {
        self.least_reply = Some(tokens);
        self
    }

    /// Sets whether token counts are corrected by the usage that the provider reports. If a counter counts too low, the
    /// correction prevents prompts that are too large. If an
    /// [estimate](crate::context::tokens::TokenCounter::is_estimate) is too high, the correction prevents that messages
    /// are left out too early. The default is `true`.
    ///
    /// This process learns the correction for each conversation, model and counter from the conversation's own calls.
    /// One conversation never changes the prompts of another. There is no correction if this process has not learned
    /// one: at the conversation's first call, after its deletion, and after 65,536 other conversations were used. Other
    /// processes do not have it. Prompts of fewer than 500 tokens, prompts with an image, audio or a file, and counters
    /// without a [name](crate::context::tokens::TokenCounter::name) are ignored.
    ///
    /// - **A count that is too low** is multiplied by a factor: the mean of the reports, in which each call has a fifth
    ///   less weight than the next one. It is at most 1.5, and at most 2 for an estimate. The factor can make windows
    ///   smaller, but it never makes a call fail: if a call fits only without the factor, it is planned without it.
    /// - **An estimate that is too high** is lowered only for the part of the prompt that the provider has already
    ///   counted, by at most a fifth of the prompt. New messages always have their whole count. The two newest reports
    ///   must be lower than the counts by more than 5%, and the prompt must still begin with the previous one: the same
    ///   head and tools, and nothing left out since. If something has to be left out of this prompt, it is planned
    ///   without the correction. A failed call removes it, because the prompt may have been too large. A report below
    ///   half of the count is ignored, because some providers report cached tokens elsewhere.
    #[must_use]
    pub const fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// Returns `true` if counts are corrected.
    pub(crate) const fn is_calibrated(&self) -> bool {
        self.calibrate
    }
}

impl Default for ContextBudget {
    fn default() -> Self {
        Self::by_model()
    }
}

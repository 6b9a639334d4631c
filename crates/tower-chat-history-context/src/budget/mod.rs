//! How much a prompt may hold.
//!
//! A model's context window holds the prompt and the reply. A [`ContextBudget`] says how large it is and how much of it is
//! reserved for the reply; what remains is the limit of the prompt, and everything in the prompt counts: head, tools,
//! response format, window, input. A call that does not fit is compacted, or fails with [`DoesNotFit`],
//! which names the size of each part, before the model is called. Nothing is ever sent that is known to be too large.
//!
//! ```
//! use tower_chat_history_context::budget::{ContextBudget, ModelLimits};
//!
//! // The default: the window of the model that a request names, by the table, which can be extended.
//! let by_model = ContextBudget::by_model().model("acme-large", ModelLimits::new(32_000).output(4_000));
//! // Or the same for every call.
//! let fixed = ContextBudget::tokens(8_192).reply_reserve(1_024).shrink_reply_to(256);
//! # let _ = (by_model, fixed);
//! ```
//!
//! `HistoryOptions` of `tower-chat-history` takes the budget, and the [`Watermarks`].
//!
//! # The reply's reserve
//!
//! It is the limit that the request itself states (`max_completion_tokens`, or else `max_tokens`), or else the
//! [configured](ContextBudget::reply_reserve) one, or else [a default](DEFAULT_REPLY_RESERVE). A prompt that is too large by
//! less than the reply can give up is sent whole with a smaller limit, where [that is allowed](ContextBudget::shrink_reply_to).
//!
//! # When the window is compacted
//!
//! [`Watermarks`] say when, and down to what: by default when the prompt is over its limit, down to 75% of it. So the window
//! grows for many turns and its beginning, which a provider has cached, stays the same; then it is cut once, further than
//! needed. A window that slid with every turn would be cached never.

mod calibration;
mod clear;
mod limits;
mod models;
mod prompt;
mod trimmer;
mod trimming;
mod watermarks;

#[doc(hidden)]
pub use self::{
    calibration::{Calibration, Key as CalibrationKey},
    limits::Limits,
};
pub use self::{
    clear::ClearResults,
    limits::{DEFAULT_REPLY_RESERVE, WindowSource},
    models::{ModelLimits, ModelTable, UnknownModel},
    prompt::{DoesNotFit, PromptTokens},
    trimmer::{Importance, KeepFirst, KeepTurn, TrimTurn, Trimmer},
    trimming::{TrimReason, Trimming},
    watermarks::{Watermark, Watermarks, WatermarksError},
};

/// How large a prompt may be. See the [module docs](self).
#[derive(Clone, Debug)]
pub struct ContextBudget {
    window: ContextWindow,
    models: ModelTable,
    unknown: Option<ModelLimits>,
    reply_reserve: Option<u32>,
    least_reply: Option<u32>,
    calibrate: bool,
}

#[derive(Clone, Copy, Debug)]
enum ContextWindow {
    ByModel,
    Fixed(ModelLimits),
    Unlimited,
}

impl ContextBudget {
    /// The context window of the model that each request names, by the [table](ModelTable). A model that is not in it
    /// has the limit of [unknown](Self::unknown) models. Without that, only the load
    /// limit bounds the prompt: the turn's report says
    /// so, and a warning names the model once.
    #[must_use]
    pub fn by_model() -> Self {
        Self::of(ContextWindow::ByModel)
    }

    /// The context window of that model, whatever the request names.
    ///
    /// # Errors
    ///
    /// When the [table](ModelTable) does not have it: state its window by [`tokens`](Self::tokens).
    pub fn for_model(name: &str) -> Result<Self, UnknownModel> {
        ModelTable::new().get(name).map(|limits| Self::of(ContextWindow::Fixed(limits)))
    }

    /// A context window of that many tokens, prompt and reply together.
    ///
    /// A window of 0, or one that the [reply's reserve](Self::reply_reserve) fills, has no room for any prompt: each
    /// call fails with [`DoesNotFit`], which names both, and the model is not called.
    #[must_use]
    pub fn tokens(context_window: u32) -> Self {
        Self::of(ContextWindow::Fixed(ModelLimits::new(context_window)))
    }

    /// No limit: only the load bounds the window, and nothing is counted before a call.
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

    /// Adds a model to the table, or replaces what it says. It matters where the budget goes [by model](Self::by_model).
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, limits: ModelLimits) -> Self {
        self.models.insert(name, limits);
        self
    }

    /// The limits of a model that is not in the [table](ModelTable), and of a request that names no model. It matters
    /// where the budget goes [by model](Self::by_model). The default is none: such a call has no limit of tokens.
    ///
    /// ```
    /// use tower_chat_history_context::budget::{ContextBudget, ModelLimits};
    ///
    /// let budget = ContextBudget::by_model().unknown(ModelLimits::new(8_192).output(1_024));
    /// # let _ = budget;
    /// ```
    #[must_use]
    pub const fn unknown(mut self, limits: ModelLimits) -> Self {
        self.unknown = Some(limits);
        self
    }

    /// How many tokens are reserved for the reply where the request does not limit it. The default is 4,096, or what the
    /// model can write at most, or a quarter of its window, whichever is least.
    #[must_use]
    pub const fn reply_reserve(mut self, tokens: u32) -> Self {
        self.reply_reserve = Some(tokens);
        self
    }

    /// Lets the reply shrink to that many tokens, at least 1, before messages are left out: the request's own limit is then lowered, in
    /// the field in which it stands. A request without such a field is not changed; its reserve shrinks. The default is that
    /// it does not shrink: no field of a request changes but its messages.
    #[must_use]
    pub const fn shrink_reply_to(mut self, tokens: u32) -> Self {
        self.least_reply = Some(tokens);
        self
    }

    /// Whether counts are corrected by what the provider reports, so that a counter that counts too little does not let
    /// prompts grow too large. The default is that they are.
    ///
    /// The factor is between 1 and 1.5. Each conversation has its own, for each model and counter, which this process
    /// learns from that conversation's reports: each call counts a fifth less than the one after it. A conversation
    /// whose factor is not known (its first call, after its deletion, in another process, or unused for longer than
    /// 65,536 others) has the factor 1. Prompts of fewer than 500 tokens, prompts with an image, audio or a file, and
    /// counters without a [name](crate::tokens::TokenCounter::name) teach nothing.
    ///
    /// The factor makes windows smaller. It does not refuse a call: a call that fits as it is counted, and does not fit
    /// by the factor, is sent as if nothing had been reported.
    #[must_use]
    pub const fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }
}

impl ContextBudget {
    #[doc(hidden)]
    /// Returns whether counts are corrected.
    #[must_use]
    pub const fn is_calibrated(&self) -> bool {
        self.calibrate
    }
}

impl Default for ContextBudget {
    fn default() -> Self {
        Self::by_model()
    }
}

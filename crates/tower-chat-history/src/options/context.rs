//! The options that determine the content of prompts.

use std::{fmt, sync::Arc};

use tower_chat_history_context::{
    budget::{ClearResults, ContextBudget, Trimmer, Watermarks},
    tokens::TokenCounter,
};
use tower_chat_history_core::{LoadLimit, Profile};

use crate::summary::SummaryFormat;

/// The options that decide which messages a prompt contains.
///
/// A [`ContextBudget`] alone converts into these options with the other defaults:
///
/// ```
/// use tower_chat_history::{ContextBudget, ContextOptions, HistoryOptions, budget::Watermarks};
///
/// let budget = ContextBudget::tokens(8_192).reply_reserve(1_024);
/// let simple = HistoryOptions::new().context(budget.clone());
///
/// let context = ContextOptions::new().budget(budget).watermarks(Watermarks::last_turns(20));
/// let more = HistoryOptions::new().context(context);
/// # let _ = (simple, more);
/// ```
///
/// As [data](crate#features), the options have no trimmer, token counter and summary format. These are set in code.
#[derive(Clone, Default)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct ContextOptions {
    pub(crate) budget: ContextBudget,
    pub(crate) watermarks: Watermarks,
    pub(crate) clear_results: Option<ClearResults>,
    #[cfg_attr(feature = "config", serde(skip))]
    pub(crate) trimmer: Option<Arc<dyn Trimmer>>,
    #[cfg_attr(feature = "config", serde(skip))]
    pub(crate) token_counter: Option<Arc<dyn TokenCounter>>,
    pub(crate) load_limit: LoadLimit,
    pub(crate) profile: Profile,
    #[cfg_attr(feature = "config", serde(skip))]
    pub(crate) summary_format: SummaryFormat,
}

impl ContextOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the size limit of a prompt. The default is [`ContextBudget::by_model`].
    #[must_use]
    pub fn budget(mut self, budget: ContextBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the size above which the window is compacted, and the size to which a compaction reduces it. The default
    /// is [`Watermarks::default`].
    #[must_use]
    pub const fn watermarks(mut self, watermarks: Watermarks) -> Self {
        self.watermarks = watermarks;
        self
    }

    /// Sets which old tool results are replaced by a placeholder before anything else is left out of a prompt. The
    /// default is none.
    #[must_use]
    pub fn clear_results(mut self, clear: ClearResults) -> Self {
        self.clear_results = Some(clear);
        self
    }

    /// Sets the rule that chooses the turns that stay in the window. The default is to keep the newest turns.
    #[must_use]
    pub fn trimmer(mut self, trimmer: impl Trimmer) -> Self {
        self.trimmer = Some(Arc::new(trimmer));
        self
    }

    /// Sets the token counter for all models. Its counts are stored with each exchange. The default depends on the
    /// call's model. The first of these counters is used:
    ///
    /// 1. the adapter's (`tower-chat-history-openai` has exact ones for OpenAI's models),
    /// 2. the [preset](crate::tokens::Estimate::for_model) for the model's name: Claude, Gemini, DeepSeek, Llama,
    ///    Mistral, Qwen,
    /// 3. [`ByteEstimate`](crate::tokens::ByteEstimate).
    #[must_use]
    pub fn token_counter(mut self, counter: impl TokenCounter) -> Self {
        self.token_counter = Some(Arc::new(counter));
        self
    }

    /// Sets the largest window that a call loads, in messages and bytes. The default is [`LoadLimit::default`].
    #[must_use]
    pub const fn load_limit(mut self, limit: LoadLimit) -> Self {
        self.load_limit = limit;
        self
    }

    /// Sets the name under which compactions are stored and loaded. The default is [`Profile::default`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the form of a summary in the prompt. The default is a system message which says that the summary is data.
    /// See [`SummaryFormat`].
    #[must_use]
    pub fn summary_format(mut self, format: SummaryFormat) -> Self {
        self.summary_format = format;
        self
    }
}

/// Creates the default options with this budget.
impl From<ContextBudget> for ContextOptions {
    fn from(budget: ContextBudget) -> Self {
        Self::new().budget(budget)
    }
}

impl fmt::Debug for ContextOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextOptions")
            .field("budget", &self.budget)
            .field("watermarks", &self.watermarks)
            .field("clear_results", &self.clear_results)
            .field("trimmer", &self.trimmer)
            .field("token_counter", &self.token_counter)
            .field("load_limit", &self.load_limit)
            .field("profile", &self.profile)
            .field("summary_format", &self.summary_format)
            .finish()
    }
}

//! The options of engines and layers, in groups.

use std::{fmt, sync::Arc, time::Duration};

use crate::context::{
    budget::{ClearResults, ContextBudget, Trimmer, Watermarks},
    compat::Readers,
    tokens::TokenCounter,
};
use tower_chat_history_core::{Dialect, LoadLimit, Origin, Profile};

use crate::{
    limits::{ConversationQuota, LimitRules},
    policy::Policies,
    recall::RecallOptions,
    report::TurnReport,
    summary::{Summaries, SummaryFormat},
    telemetry::Telemetry,
};

type Hook = Arc<dyn Fn(&TurnReport) + Send + Sync>;

#[doc = include_str!("../docs/defaults.md")]
#[derive(Clone)]
pub struct HistoryOptions {
    pub(crate) context: ContextOptions,
    pub(crate) policies: Policies,
    pub(crate) summaries: Option<Summaries>,
    pub(crate) recall: Option<RecallOptions>,
    pub(crate) limits: LimitRules,
    pub(crate) conversation_quota: Option<ConversationQuota>,
    pub(crate) origin: Origin,
    pub(crate) readers: Readers,
    pub(crate) dialects: Vec<&'static dyn Dialect>,
    pub(crate) telemetry: Telemetry,
    pub(crate) store_timeout: Option<Duration>,
    pub(crate) save_attempts: u32,
    pub(crate) stream_idle_timeout: Option<Duration>,
    pub(crate) on_turn: Option<Hook>,
}

impl HistoryOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            context: ContextOptions::default(),
            policies: Policies::default(),
            summaries: None,
            recall: None,
            limits: LimitRules::new(),
            conversation_quota: None,
            origin: Origin::UNKNOWN,
            readers: Readers::new(),
            dialects: Vec::new(),
            telemetry: Telemetry::default(),
            store_timeout: Some(Duration::from_secs(10)),
            save_attempts: 3,
            stream_idle_timeout: None,
            on_turn: None,
        }
    }

    /// Sets the options of the prompt: [`ContextOptions`], or a [`ContextBudget`](crate::ContextBudget) alone. It
    /// replaces the whole group. The default is [`ContextOptions::default`].
    #[must_use]
    pub fn context(mut self, context: impl Into<ContextOptions>) -> Self {
        self.context = context.into();
        self
    }

    /// Sets what happens on conflicts, failures and interruptions. It replaces the whole group. The default is
    /// [`Policies::default`].
    #[must_use]
    pub const fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Enables summaries of the turns that leave the window. By default, these turns are left out without a summary.
    #[must_use]
    pub fn summaries(mut self, summaries: Summaries) -> Self {
        self.summaries = Some(summaries);
        self
    }

    /// Enables [recall](crate::recall): earlier messages are shown again if a new input needs them. By default, the model
    /// receives only the window and the summary.
    #[must_use]
    pub fn recall(mut self, recall: RecallOptions) -> Self {
        self.recall = Some(recall);
        self
    }

    /// Sets the limits of calls and conversations: [`Limits`](crate::limits::Limits) for all conversations, or
    /// [rules](LimitRules) by prefix. The default is no limits.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<LimitRules>) -> Self {
        self.limits = limits.into();
        self
    }

    /// Sets the largest numbers of conversations, which are counted in a store that lists its conversations. The
    /// default is no limit.
    #[must_use]
    pub fn conversation_quota(mut self, quota: ConversationQuota) -> Self {
        self.conversation_quota = Some(quota);
        self
    }

    /// Sets the provider that is called. Sealed reasoning of another provider is left out of prompts. For each value
    /// that is not set here, that of the [request](crate::engine::RequestInfo::origin) is used: the adapter's provider
    /// if the caller has set one, and the request's model. The default is [`Origin::UNKNOWN`].
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the table of what providers, servers and chat templates accept. Prompts are adapted to it. The default is
    /// [`Readers::new`]. See [`compat`](crate::compat).
    #[must_use]
    pub fn readers(mut self, readers: Readers) -> Self {
        self.readers = readers;
        self
    }

    /// Sets the dialects of other crates in which exchanges can be stored. Only
    /// [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate) needs them, because a store has only the
    /// name of a dialect. The dialects of this crate are always known, and so is that of a call. The default is none.
    #[must_use]
    pub fn dialects(mut self, dialects: impl IntoIterator<Item = &'static dyn Dialect>) -> Self {
        self.dialects = dialects.into_iter().collect();
        self
    }

    /// Sets which data of a turn is exported. The default is spans without conversation ids and message content. See
    /// [`telemetry`](crate::telemetry).
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Sets the timeout of one load, and of one attempt to save. `None` means no limit. The default is 10 seconds.
    #[must_use]
    pub fn store_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.store_timeout = timeout.into();
        self
    }

    /// Sets the largest number of attempts of one save. A save is attempted again if the store is not available, or
    /// does not answer in time. 0 means 1. The default is 3.
    ///
    /// The pause after the first attempt is 50 milliseconds, and each further pause is twice as long. Every attempt has
    /// the same exchange id, so the exchange is stored only once.
    #[must_use]
    pub const fn save_attempts(mut self, attempts: u32) -> Self {
        self.save_attempts = attempts;
        self
    }

    /// Sets the longest time to wait for a stream's next item: for the first one, and after each item. `None` means
    /// no limit. The default is `None`.
    ///
    /// Time in which the caller does not poll the stream does not count, with one exception: of each pause, up to an
    /// eighth of the timeout counts.
    ///
    /// After this time, the stream is ended and its connection is dropped. The rest depends on the reply:
    /// - If the reply is complete, the stream ends without an error, and the exchange is stored.
    /// - If the reply is incomplete, the stream's last item is an error made from
    ///   [`StreamStalled`](crate::error::StreamStalled). The policy [`OnInterruption`](crate::policy::OnInterruption)
    ///   decides if the text so far is stored. If nothing is stored, the report has
    ///   [`NotStored::Stalled`](crate::report::NotStored::Stalled).
    ///
    /// Over HTTP, a body may go on after the event after which clients stop reading. The rest is passed on, and the
    /// timeout ends the body without an error.
    ///
    /// The timeout does not apply to responses that are no streams. In contrast, tower's `Timeout` in the inner service
    /// limits only the time until a response begins. A `Timeout` around the layer limits the time until a whole
    /// response is stored.
    #[must_use]
    pub fn stream_idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.stream_idle_timeout = timeout.into();
        self
    }

    /// Sets a hook that receives the report of every turn that began. It is called when the turn ends, whether or not
    /// the exchange was stored. The default is none.
    ///
    /// The hook runs on the thread that ends the turn, possibly inside a `drop`. It must not block.
    #[must_use]
    pub fn on_turn(mut self, hook: impl Fn(&TurnReport) + Send + Sync + 'static) -> Self {
        self.on_turn = Some(Arc::new(hook));
        self
    }
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HistoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields by name, so that none is missing here. An option with a secret must not show it.
        let Self {
            context,
            policies,
            summaries,
            recall,
            limits,
            conversation_quota,
            origin,
            readers,
            dialects,
            telemetry,
            store_timeout,
            save_attempts,
            stream_idle_timeout,
            on_turn,
        } = self;
        f.debug_struct("HistoryOptions")
            .field("context", context)
            .field("policies", policies)
            .field("summaries", summaries)
            .field("recall", recall)
            .field("limits", limits)
            .field("conversation_quota", conversation_quota)
            .field("origin", origin)
            .field("readers", readers)
            .field("dialects", dialects)
            .field("telemetry", telemetry)
            .field("store_timeout", store_timeout)
            .field("save_attempts", save_attempts)
            .field("stream_idle_timeout", stream_idle_timeout)
            .field("on_turn", &on_turn.is_some())
            .finish()
    }
}

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
    #[cfg_attr(feature = "config", serde(rename = "old_reasoning_turns"))]
    pub(crate) old_reasoning: Option<u32>,
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

    /// Leaves out the reasoning of old turns: the fields `reasoning_content` and `reasoning` of chat completions, and
    /// `<think>…</think>` at the beginning of a reply. Providers count it as input at every call, as a rule without a
    /// use for it. The reasoning of the turn under way and of this many turns before it stays. The default is to leave
    /// out none.
    ///
    /// - From `1` on, reasoning leaves only at a [compaction](Self::watermarks), as its first step. In between, nothing
    ///   changes, so the beginning of the prompt stays in the provider's prefix cache.
    /// - With `0`, reasoning leaves as soon as its turn ends, also without a budget. Each question then changes the
    ///   prompt from the reasoning of the previous turn on, once.
    ///
    /// Reasoning that a provider has signed or encrypted stays exactly as it is, in a message of which nothing else
    /// changes either. So does that of replies with tool calls if the [reader](crate::compat) requires it, as DeepSeek
    /// does. The log keeps everything.
    ///
    /// Some models need their earlier reasoning: MiniMax-M2 is trained to read its own `<think>` blocks again. Do not
    /// set this option for them.
    ///
    /// The [report](crate::report::TurnTokens::reasoning_saved) has the tokens that this saves.
    #[must_use]
    pub const fn old_reasoning(mut self, turns: u32) -> Self {
        self.old_reasoning = Some(turns);
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

    /// Sets the largest window that a call loads, in messages, bytes of text and bytes of media. The default is
    /// [`LoadLimit::default`].
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

    /// Sets the form of a summary in the prompt. The default is a text which says that the summary is data. See
    /// [`SummaryFormat`].
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
        // All fields by name, so that none is missing here.
        let Self {
            budget,
            watermarks,
            clear_results,
            old_reasoning,
            trimmer,
            token_counter,
            load_limit,
            profile,
            summary_format,
        } = self;
        f.debug_struct("ContextOptions")
            .field("budget", budget)
            .field("watermarks", watermarks)
            .field("clear_results", clear_results)
            .field("old_reasoning", old_reasoning)
            .field("trimmer", trimmer)
            .field("token_counter", token_counter)
            .field("load_limit", load_limit)
            .field("profile", profile)
            .field("summary_format", summary_format)
            .finish()
    }
}

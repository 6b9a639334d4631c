//! Everything that can be set, with its default.

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_context::{
    budget::{ClearResults, ContextBudget, Trimmer, Watermarks},
    tokens::TokenCounter,
};
use tower_chat_history_core::{LoadLimit, Profile};

use crate::{
    policy::{
        DetachLimits, OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, OnSaveFailure, OnTranscriptMismatch,
    },
    report::TurnReport,
    spawn::{Spawn, TokioSpawn},
    summary::{Summaries, SummaryFormat},
    telemetry::Telemetry,
};

type Hook = Arc<dyn Fn(&TurnReport) + Send + Sync>;

#[doc = include_str!("../docs/defaults.md")]
#[derive(Clone)]
pub struct HistoryOptions {
    pub(crate) on_conflict: OnConflict,
    pub(crate) on_open_turn: OnOpenTurn,
    pub(crate) on_transcript_mismatch: OnTranscriptMismatch,
    pub(crate) on_load_failure: OnLoadFailure,
    pub(crate) on_save_failure: OnSaveFailure,
    pub(crate) on_interruption: OnInterruption,
    pub(crate) detach_limits: DetachLimits,
    pub(crate) stream_idle_timeout: Option<Duration>,
    pub(crate) profile: Profile,
    pub(crate) load_limit: LoadLimit,
    pub(crate) store_timeout: Option<Duration>,
    pub(crate) save_attempts: u32,
    pub(crate) budget: ContextBudget,
    /// True if the budget was set, and is not the default.
    has_budget: bool,
    pub(crate) watermarks: Watermarks,
    pub(crate) clear_results: Option<ClearResults>,
    pub(crate) trimmer: Option<Arc<dyn Trimmer>>,
    pub(crate) summaries: Option<Summaries>,
    pub(crate) summary_format: SummaryFormat,
    pub(crate) token_counter: Option<Arc<dyn TokenCounter>>,
    pub(crate) on_turn: Option<Hook>,
    pub(crate) telemetry: Telemetry,
    pub(crate) spawn: Arc<dyn Spawn>,
}

impl HistoryOptions {
    /// The defaults. Inside a tokio runtime, its handle is kept for saves that outlive their call.
    #[must_use]
    pub fn new() -> Self {
        Self {
            on_conflict: OnConflict::default(),
            on_open_turn: OnOpenTurn::default(),
            on_transcript_mismatch: OnTranscriptMismatch::default(),
            on_load_failure: OnLoadFailure::default(),
            on_save_failure: OnSaveFailure::default(),
            on_interruption: OnInterruption::default(),
            detach_limits: DetachLimits::default(),
            stream_idle_timeout: None,
            profile: Profile::default(),
            load_limit: LoadLimit::default(),
            store_timeout: Some(Duration::from_secs(10)),
            save_attempts: 3,
            budget: ContextBudget::default(),
            has_budget: false,
            watermarks: Watermarks::default(),
            clear_results: None,
            trimmer: None,
            summaries: None,
            summary_format: SummaryFormat::default(),
            token_counter: None,
            on_turn: None,
            telemetry: Telemetry::default(),
            spawn: Arc::new(TokioSpawn::current()),
        }
    }

    /// What becomes of an exchange when another one came first. The default is [`OnConflict::Rebase`].
    #[must_use]
    pub const fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.on_conflict = policy;
        self
    }

    /// What a new question on unanswered calls does. The default is [`OnOpenTurn::Supersede`].
    #[must_use]
    pub const fn on_open_turn(mut self, policy: OnOpenTurn) -> Self {
        self.on_open_turn = policy;
        self
    }

    /// Sets what a call does that resends something else than the log has
    /// ([`InputMode::Transcript`](crate::InputMode::Transcript)). The default is [`OnTranscriptMismatch::Fail`].
    #[must_use]
    pub const fn on_transcript_mismatch(mut self, policy: OnTranscriptMismatch) -> Self {
        self.on_transcript_mismatch = policy;
        self
    }

    /// What a failed load does. The default is [`OnLoadFailure::Fail`].
    #[must_use]
    pub const fn on_load_failure(mut self, policy: OnLoadFailure) -> Self {
        self.on_load_failure = policy;
        self
    }

    /// What a failed save does. The default is [`OnSaveFailure::Fail`].
    #[must_use]
    pub const fn on_save_failure(mut self, policy: OnSaveFailure) -> Self {
        self.on_save_failure = policy;
        self
    }

    /// What becomes of an interrupted stream. The default is [`OnInterruption::Discard`].
    #[must_use]
    pub const fn on_interruption(mut self, policy: OnInterruption) -> Self {
        self.on_interruption = policy;
        self
    }

    /// Sets how many streams are read on without their callers, and how long, under [`OnInterruption::Detach`]. The
    /// default is [`DetachLimits::default`].
    #[must_use]
    pub const fn detach_limits(mut self, limits: DetachLimits) -> Self {
        self.detach_limits = limits;
        self
    }

    /// Sets how long a stream may be waited for while it brings no item, from its beginning and after each item; `None`
    /// waits forever. Time in which nobody reads the stream does not count, but for an eighth of the limit. The default
    /// is `None`.
    ///
    /// A stream that brings nothing for that long is ended, and its connection dropped. Where its reply was not
    /// complete, the caller gets one more item, an error made of [`StreamStalled`](crate::StreamStalled), and the
    /// exchange is treated by [`OnInterruption`]; without text to keep the report says
    /// [`NotStored::Stalled`](crate::NotStored::Stalled). Where every choice had ended, the stream just ends and the
    /// exchange is stored.
    ///
    /// A timeout inside of the layer (`tower`'s `Timeout`) bounds a stream's beginning alone.
    #[must_use]
    pub fn stream_idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.stream_idle_timeout = timeout.into();
        self
    }

    /// Whose compactions apply. The default is [`Profile::default`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// How much of a conversation a call loads at most. The default is [`LoadLimit::default`].
    #[must_use]
    pub const fn load_limit(mut self, limit: LoadLimit) -> Self {
        self.load_limit = limit;
        self
    }

    /// How long one load or one attempt to save may take; `None` waits for ever. The default is 10 seconds.
    #[must_use]
    pub fn store_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.store_timeout = timeout.into();
        self
    }

    /// How often a save is tried when the store is not available, panics, or does not answer in time; 0 counts as 1.
    /// The default is 3, with 50 and 100 milliseconds in between (none outside of a tokio runtime). Every attempt
    /// carries the same exchange id, so none stores twice.
    #[must_use]
    pub const fn save_attempts(mut self, attempts: u32) -> Self {
        self.save_attempts = attempts;
        self
    }

    /// How large a prompt may be. The default is [`ContextBudget::by_model`].
    #[must_use]
    pub fn budget(mut self, budget: ContextBudget) -> Self {
        self.budget = budget;
        self.has_budget = true;
        self
    }

    /// These options in place of earlier ones, whose budget stays if these set none.
    pub(crate) fn after(self, earlier: Self) -> Self {
        if self.has_budget || !earlier.has_budget { self } else { self.budget(earlier.budget) }
    }

    /// When the window is compacted, and down to what. The default is [`Watermarks::default`].
    #[must_use]
    pub const fn watermarks(mut self, watermarks: Watermarks) -> Self {
        self.watermarks = watermarks;
        self
    }

    /// Clears old tool results before anything else is left out. The default is not to.
    #[must_use]
    pub fn clear_results(mut self, clear: ClearResults) -> Self {
        self.clear_results = Some(clear);
        self
    }

    /// Decides by another rule what is left out. The default is that the newest turns are kept.
    #[must_use]
    pub fn trimmer(mut self, trimmer: impl Trimmer) -> Self {
        self.trimmer = Some(Arc::new(trimmer));
        self
    }

    /// Has what leaves the window summarized. The default is not to: it is left out.
    #[must_use]
    pub fn summaries(mut self, summaries: Summaries) -> Self {
        self.summaries = Some(summaries);
        self
    }

    /// How a summary stands in the prompt. The default is a system message that says what it is, see [`SummaryFormat`].
    #[must_use]
    pub fn summary_format(mut self, format: SummaryFormat) -> Self {
        self.summary_format = format;
        self
    }

    /// What counts tokens, whatever model a call is for. Its counts are stored with each exchange. The default is what the
    /// adapter has for the call's model (`tower-chat-history-openai` counts exactly), or else a
    /// [`ByteEstimate`](crate::tokens::ByteEstimate).
    #[must_use]
    pub fn token_counter(mut self, counter: impl TokenCounter) -> Self {
        self.token_counter = Some(Arc::new(counter));
        self
    }

    /// Is called with the report of every turn that has begun, when it ends: stored, not stored, interrupted or abandoned. It
    /// runs where the turn ends (which may be a drop) and must not block. The default is none.
    #[must_use]
    pub fn on_turn(mut self, hook: impl Fn(&TurnReport) + Send + Sync + 'static) -> Self {
        self.on_turn = Some(Arc::new(hook));
        self
    }

    /// What is exported of turns. The default is spans without conversation ids and content, see
    /// [`telemetry`](crate::telemetry).
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Returns whether calls need a timer, and with it a tokio runtime.
    pub(crate) const fn measures_time(&self) -> bool {
        self.store_timeout.is_some()
            || self.stream_idle_timeout.is_some()
            || matches!(self.on_conflict, OnConflict::Serialize(_))
            || self.summaries.is_some()
    }

    /// Where a save goes on when its caller has left. The default is [`TokioSpawn::current`].
    #[must_use]
    pub fn spawn(mut self, spawn: impl Spawn + 'static) -> Self {
        self.spawn = Arc::new(spawn);
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
        f.debug_struct("HistoryOptions")
            .field("on_conflict", &self.on_conflict)
            .field("on_open_turn", &self.on_open_turn)
            .field("on_transcript_mismatch", &self.on_transcript_mismatch)
            .field("on_load_failure", &self.on_load_failure)
            .field("on_save_failure", &self.on_save_failure)
            .field("on_interruption", &self.on_interruption)
            .field("detach_limits", &self.detach_limits)
            .field("stream_idle_timeout", &self.stream_idle_timeout)
            .field("profile", &self.profile)
            .field("load_limit", &self.load_limit)
            .field("store_timeout", &self.store_timeout)
            .field("save_attempts", &self.save_attempts)
            .field("budget", &self.budget)
            .field("watermarks", &self.watermarks)
            .field("clear_results", &self.clear_results)
            .field("trimmer", &self.trimmer)
            .field("summaries", &self.summaries)
            .field("summary_format", &self.summary_format)
            .field("token_counter", &self.token_counter)
            .field("on_turn", &self.on_turn.is_some())
            .field("telemetry", &self.telemetry)
            .field("spawn", &self.spawn)
            .finish()
    }
}

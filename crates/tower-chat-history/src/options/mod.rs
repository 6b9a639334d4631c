//! The options of engines and layers, in groups.

mod context;
mod policies;

use std::{fmt, sync::Arc, time::Duration};

pub use self::{context::ContextOptions, policies::Policies};
use crate::{
    policy::OnConflict,
    report::TurnReport,
    spawn::{Spawn, TokioSpawn},
    summary::Summaries,
    telemetry::Telemetry,
};

type Hook = Arc<dyn Fn(&TurnReport) + Send + Sync>;

#[doc = include_str!("../../docs/defaults.md")]
#[derive(Clone)]
pub struct HistoryOptions {
    pub(crate) context: ContextOptions,
    pub(crate) policies: Policies,
    pub(crate) summaries: Option<Summaries>,
    pub(crate) telemetry: Telemetry,
    pub(crate) store_timeout: Option<Duration>,
    pub(crate) save_attempts: u32,
    pub(crate) stream_idle_timeout: Option<Duration>,
    pub(crate) on_turn: Option<Hook>,
    pub(crate) spawn: Arc<dyn Spawn>,
}

impl HistoryOptions {
    /// Creates the default options. Inside a tokio runtime, they keep its handle for saves that outlive their call.
    #[must_use]
    pub fn new() -> Self {
        Self {
            context: ContextOptions::default(),
            policies: Policies::default(),
            summaries: None,
            telemetry: Telemetry::default(),
            store_timeout: Some(Duration::from_secs(10)),
            save_attempts: 3,
            stream_idle_timeout: None,
            on_turn: None,
            spawn: Arc::new(TokioSpawn::current()),
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

    /// Summarizes the turns that leave the window. The default is to leave them out without a summary.
    #[must_use]
    pub fn summaries(mut self, summaries: Summaries) -> Self {
        self.summaries = Some(summaries);
        self
    }

    /// Sets which data of a turn is exported. The default is spans without conversation ids and content, see
    /// [`telemetry`](crate::telemetry).
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Sets how long one load, or one attempt to save, may take. `None` means without a limit. The default is 10
    /// seconds.
    #[must_use]
    pub fn store_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.store_timeout = timeout.into();
        self
    }

    /// Sets how many times a save is attempted if the store is not available, panics, or does not answer in time. 0
    /// counts as 1. The default is 3.
    ///
    /// The pauses between attempts are 50 and 100 milliseconds, and double further; outside of a tokio runtime, there
    /// are none. Every attempt has the same exchange id, so the exchange is stored only once.
    #[must_use]
    pub const fn save_attempts(mut self, attempts: u32) -> Self {
        self.save_attempts = attempts;
        self
    }

    /// Sets the longest time that a stream may yield no item, from its beginning and after each item. `None` means
    /// without a limit. The default is `None`.
    ///
    /// Of the time in which the stream is not polled, at most an eighth of the limit counts.
    ///
    /// A stream that yields nothing for this long is ended, and its connection is dropped. If its reply was
    /// incomplete, the caller gets one more item: an error made of [`StreamStalled`](crate::error::StreamStalled).
    /// The exchange is then treated by [`OnInterruption`](crate::policy::OnInterruption); if there is no text to
    /// keep, the report says [`NotStored::Stalled`](crate::report::NotStored::Stalled). If every choice had ended,
    /// the stream just ends, and the exchange is stored.
    ///
    /// A timeout inside the layer (tower's `Timeout`) limits only the time until the stream begins.
    #[must_use]
    pub fn stream_idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.stream_idle_timeout = timeout.into();
        self
    }

    /// Sets a hook that receives the report of every turn that has begun, when the turn ends: stored, not stored,
    /// interrupted or abandoned. The default is none.
    ///
    /// The hook runs where the turn ends, which may be in a drop. It must not block.
    #[must_use]
    pub fn on_turn(mut self, hook: impl Fn(&TurnReport) + Send + Sync + 'static) -> Self {
        self.on_turn = Some(Arc::new(hook));
        self
    }

    /// Sets what runs a save whose caller has dropped the call. The default is [`TokioSpawn::current`].
    #[must_use]
    pub fn spawn(mut self, spawn: impl Spawn + 'static) -> Self {
        self.spawn = Arc::new(spawn);
        self
    }

    /// Returns whether calls need a timer, and with it a tokio runtime.
    pub(crate) const fn measures_time(&self) -> bool {
        self.store_timeout.is_some()
            || self.stream_idle_timeout.is_some()
            || matches!(self.policies.on_conflict, OnConflict::Serialize(_))
            || self.summaries.is_some()
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
            .field("context", &self.context)
            .field("policies", &self.policies)
            .field("summaries", &self.summaries)
            .field("telemetry", &self.telemetry)
            .field("store_timeout", &self.store_timeout)
            .field("save_attempts", &self.save_attempts)
            .field("stream_idle_timeout", &self.stream_idle_timeout)
            .field("on_turn", &self.on_turn.is_some())
            .field("spawn", &self.spawn)
            .finish()
    }
}

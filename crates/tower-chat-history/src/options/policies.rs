//! The options for conflicts, failures and interruptions.

use crate::policy::{
    DetachLimits, OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, OnOtherDialect, OnSaveFailure,
    OnTranscriptMismatch,
};

/// The options that determine what happens on conflicts, failures and interruptions.
///
/// ```
/// use tower_chat_history::{
///     HistoryOptions, Policies,
///     policy::{OnInterruption, OnSaveFailure},
/// };
///
/// let policies = Policies::new().on_interruption(OnInterruption::KeepText).on_save_failure(OnSaveFailure::Report);
/// let options = HistoryOptions::new().policies(policies);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Policies {
    pub(crate) on_conflict: OnConflict,
    pub(crate) on_open_turn: OnOpenTurn,
    pub(crate) on_transcript_mismatch: OnTranscriptMismatch,
    pub(crate) on_other_dialect: OnOtherDialect,
    pub(crate) on_load_failure: OnLoadFailure,
    pub(crate) on_save_failure: OnSaveFailure,
    pub(crate) on_interruption: OnInterruption,
    pub(crate) detach_limits: DetachLimits,
}

impl Policies {
    /// Creates the default policies.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what happens to an exchange if another one was stored between its load and its save. The default is
    /// [`OnConflict::Rebase`].
    #[must_use]
    pub const fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.on_conflict = policy;
        self
    }

    /// Sets what happens if a new question arrives while tool calls are unanswered. The default is
    /// [`OnOpenTurn::Supersede`].
    #[must_use]
    pub const fn on_open_turn(mut self, policy: OnOpenTurn) -> Self {
        self.on_open_turn = policy;
        self
    }

    /// Sets what happens if the messages that a caller resends do not match the end of the log
    /// ([`InputMode::Transcript`](crate::engine::InputMode::Transcript)). The default is
    /// [`OnTranscriptMismatch::Fail`].
    #[must_use]
    pub const fn on_transcript_mismatch(mut self, policy: OnTranscriptMismatch) -> Self {
        self.on_transcript_mismatch = policy;
        self
    }

    /// Sets what happens if exchanges are stored in another [dialect](crate::dialect) than that of the call. The default
    /// is [`OnOtherDialect::Fail`].
    #[must_use]
    pub const fn on_other_dialect(mut self, policy: OnOtherDialect) -> Self {
        self.on_other_dialect = policy;
        self
    }

    /// Sets what happens to a call whose history cannot be loaded. The default is [`OnLoadFailure::Fail`].
    #[must_use]
    pub const fn on_load_failure(mut self, policy: OnLoadFailure) -> Self {
        self.on_load_failure = policy;
        self
    }

    /// Sets what happens to a reply that cannot be stored. The default is [`OnSaveFailure::Fail`].
    #[must_use]
    pub const fn on_save_failure(mut self, policy: OnSaveFailure) -> Self {
        self.on_save_failure = policy;
        self
    }

    /// Sets what happens to an interrupted stream. The default is [`OnInterruption::Discard`].
    #[must_use]
    pub const fn on_interruption(mut self, policy: OnInterruption) -> Self {
        self.on_interruption = policy;
        self
    }

    /// Sets the limits of detached streams, which are read in the background after their callers dropped them
    /// ([`OnInterruption::Detach`]). The default is [`DetachLimits::default`].
    #[must_use]
    pub const fn detach_limits(mut self, limits: DetachLimits) -> Self {
        self.detach_limits = limits;
        self
    }
}

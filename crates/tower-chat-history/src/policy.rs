//! Policies: what happens on conflicts, failures and interruptions.
//!
//! [`Policies`] sets them for a layer or an engine:
//!
//! | policy | applies if | default |
//! |---|---|---|
//! | [`OnConflict`] | another exchange was stored between load and save | [`Rebase`](OnConflict::Rebase) |
//! | [`OnOpenTurn`] | a new question arrives while tool calls are unanswered | [`Supersede`](OnOpenTurn::Supersede) |
//! | [`OnTranscriptMismatch`] | the messages that a caller resends do not match the log | [`Fail`](OnTranscriptMismatch::Fail) |
//! | [`OnOtherDialect`] | exchanges are stored in another dialect than that of the call | [`Fail`](OnOtherDialect::Fail) |
//! | [`OnLoadFailure`] | the history cannot be loaded | [`Fail`](OnLoadFailure::Fail) |
//! | [`OnSaveFailure`] | a reply cannot be stored | [`Fail`](OnSaveFailure::Fail) |
//! | [`OnInterruption`] | a stream ends early | [`Discard`](OnInterruption::Discard) |
//! | [`DetachLimits`] | [`OnInterruption::Detach`] is set: the most streams that are read to their end, and for how long | 1,024 in total, 4 per conversation, 10 minutes each |
//! | [`QueueLimits`] | [`OnConflict::Serialize`] is set: the most calls that wait in a conversation's queue, and for how long | 16 calls, 60 seconds |

use std::time::Duration;

#[doc(inline)]
pub use crate::context::OnOpenTurn;
#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

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

/// The policy for an exchange if another exchange was appended between its load and its save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnConflict {
    /// Appends the exchange after the other one. The conversation is valid, because whole exchanges may be stored in
    /// any order.
    #[default]
    Rebase,
    /// Does not store the exchange: the save fails with [`StoreError::Conflict`](crate::StoreError::Conflict).
    ///
    /// Two kinds of exchanges are stored nevertheless, as with [`Rebase`](Self::Rebase). A continuation (the results
    /// of tool calls, and the reply) is stored because the calls would otherwise stay open. An exchange whose history
    /// could not be loaded ([`OnLoadFailure::CallWithoutHistory`]) is stored because no revision is known to compare
    /// the log with.
    Reject,
    /// Runs the calls of one conversation one at a time, as long as they use the same [`Engine`](crate::Engine).
    /// Otherwise like [`Rebase`](Self::Rebase).
    Serialize(QueueLimits),
}

/// Limits of the queue in which calls of one conversation wait for each other ([`OnConflict::Serialize`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct QueueLimits {
    /// The number of calls that may wait. One more call fails immediately. The default is 16.
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::positive"))]
    pub max_waiting: usize,
    /// The longest time that a call waits. The default is 60 seconds.
    #[cfg_attr(feature = "config", serde(rename = "timeout_ms", deserialize_with = "field::timeout"))]
    pub timeout: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { max_waiting: 16, timeout: Duration::from_secs(60) }
    }
}

impl QueueLimits {
    /// Creates these limits.
    #[must_use]
    pub const fn new(max_waiting: usize, timeout: Duration) -> Self {
        Self { max_waiting, timeout }
    }
}

/// The policy for a call whose [transcript](crate::engine::InputMode::Transcript) does not match the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnTranscriptMismatch {
    /// Fails with [`HistoryError::Transcript`](crate::HistoryError::Transcript) before the model is called.
    #[default]
    Fail,
    /// Continues with the history from the log and only the new input, which is everything after the last assistant
    /// message. The earlier messages that the caller resends are ignored. The report contains the mismatch
    /// ([`TurnReport::transcript_mismatch`](crate::TurnReport::transcript_mismatch)).
    TrustLog,
}

/// The policy for a conversation with exchanges that are stored in another [dialect](crate::dialect) than that of the
/// call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnOtherDialect {
    /// Fails with [`HistoryError::OtherDialect`](crate::HistoryError::OtherDialect), which names both dialects, before
    /// the model is called.
    #[default]
    Fail,
    /// Sends these exchanges in the dialect of the call. Texts, images, files, calls and results are translated. Parts
    /// that only their provider can use are left out: reasoning, calls that the provider executed, compactions. The
    /// report has the numbers ([`TurnReport::translation`](crate::TurnReport::translation)). The log is not changed.
    ///
    /// A turn has one dialect. Tool results for calls of another dialect fail as with [`Fail`](Self::Fail), and a new
    /// question abandons these calls. See [translations](crate::dialect#translations).
    Translate,
}

/// The policy for a call whose history cannot be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnLoadFailure {
    /// Fails with [`HistoryError::Load`](crate::HistoryError::Load) or
    /// [`LoadTimeout`](crate::HistoryError::LoadTimeout) before the model is called.
    #[default]
    Fail,
    /// Calls the model without history, or with the messages that the caller resends. The report then has
    /// [`HistoryStatus::Unavailable`](crate::report::HistoryStatus::Unavailable).
    CallWithoutHistory,
}

/// The policy for a reply that cannot be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnSaveFailure {
    /// Fails with [`Unsaved`](crate::Unsaved). This error contains the response, so a reply that was paid for is not
    /// lost. A stream has already been delivered when its save fails, so for streams this policy is the same as
    /// [`Report`](Self::Report).
    #[default]
    Fail,
    /// Returns the response. Only the [report](crate::TurnReport), which the hook and the caller's handle receive,
    /// contains the error. This policy applies to the layer: [`Turn::commit`](crate::Turn::commit) always returns the
    /// error.
    Report,
}

/// The policy for a stream that ends, fails or is dropped before its reply is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnInterruption {
    /// Stores nothing: the conversation stays as it was before the call. A caller who drops a stream early loses both
    /// the question and the answer.
    #[default]
    Discard,
    /// Stores the input and the text so far, marked as [`incomplete`](crate::Exchange::incomplete). Partial tool
    /// calls are not stored. If there is no text, nothing is stored.
    ///
    /// The call can then be repeated, and the model is called again:
    /// - The partial reply has a generated exchange id, so the caller's own exchange id is still unused.
    /// - If the input was tool results, the caller may send them again. Later prompts then leave out the first
    ///   attempt.
    /// - If the input was a question, the conversation contains it twice, with the partial reply in between.
    /// - A caller that resends its list may include or omit the partial reply.
    KeepText,
    /// If the caller drops a stream, reads the rest of it in the background, within [limits](DetachLimits), and
    /// stores the exchange as usual. If the stream fails, ends early or exceeds the limits, nothing is stored.
    Detach,
}

/// Limits of the streams that an [`Engine`](crate::Engine) reads in the background after their callers have dropped
/// them ([`OnInterruption::Detach`]).
///
/// If a stream exceeds one of these limits, nothing is stored, as with [`OnInterruption::Discard`]. Its report then
/// has [`NotStored::DetachLimit`](crate::report::NotStored::DetachLimit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct DetachLimits {
    /// The largest number of streams at one time, of all conversations together. The default is 1,024.
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::positive"))]
    pub max_streams: usize,
    /// The largest number of streams at one time of one conversation. This limit prevents one conversation from using
    /// up the total. The default is 4.
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::positive"))]
    pub max_per_conversation: usize,
    /// The longest time that a stream is read after its caller dropped it. `None` means no limit. The default
    /// is 10 minutes.
    #[cfg_attr(feature = "config", serde(rename = "timeout_ms", deserialize_with = "field::timeout_or_none"))]
    pub timeout: Option<Duration>,
}

impl Default for DetachLimits {
    fn default() -> Self {
        Self { max_streams: 1_024, max_per_conversation: 4, timeout: Some(Duration::from_secs(600)) }
    }
}

impl DetachLimits {
    /// Creates the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest number of streams at one time, of all conversations together. The default is 1,024.
    #[must_use]
    pub const fn max_streams(mut self, streams: usize) -> Self {
        self.max_streams = streams;
        self
    }

    /// Sets the largest number of streams at one time of one conversation. The default is 4.
    #[must_use]
    pub const fn max_per_conversation(mut self, streams: usize) -> Self {
        self.max_per_conversation = streams;
        self
    }

    /// Sets the longest time that a stream is read after its caller dropped it. `None` means no limit. The default is
    /// 10 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

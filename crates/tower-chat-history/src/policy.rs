//! What to do when something is not as it should be.

use std::time::Duration;

pub use tower_chat_history_context::OnOpenTurn;

/// What becomes of an exchange when another one was appended while its model call ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It is appended behind the other one. Two whole exchanges in either order are a valid conversation.
    #[default]
    Rebase,
    /// It is not stored: the save fails with [`StoreError::Conflict`](crate::StoreError::Conflict). A continuation (results
    /// for the calls of an exchange) is appended all the same, since a conversation must get its results; so is an exchange
    /// whose history could not be loaded ([`OnLoadFailure::CallWithoutHistory`]), since nothing is known to compare with.
    Reject,
    /// Calls of one conversation wait for each other, as far as they share an [`Engine`](crate::Engine); beyond that, as
    /// [`Rebase`](Self::Rebase).
    Serialize(QueueLimits),
}

/// How calls of one conversation wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLimits {
    /// How many may wait at most; one more fails at once. The default is 16.
    pub max_waiting: usize,
    /// How long one waits at most. The default is 60 seconds.
    pub timeout: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { max_waiting: 16, timeout: Duration::from_secs(60) }
    }
}

impl QueueLimits {
    /// A queue with these bounds.
    #[must_use]
    pub const fn new(max_waiting: usize, timeout: Duration) -> Self {
        Self { max_waiting, timeout }
    }
}

/// What becomes of a call whose [transcript](crate::engine::InputMode::Transcript) is not the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTranscriptMismatch {
    /// It fails with [`HistoryError::Transcript`](crate::HistoryError::Transcript) before the model is called.
    #[default]
    Fail,
    /// The log stands: the call goes on with its new input alone (what comes after the last assistant message), and
    /// what it resends is ignored. [`TurnReport::transcript_mismatch`](crate::TurnReport::transcript_mismatch) says
    /// that it happened.
    TrustLog,
}

/// What becomes of a call whose history cannot be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLoadFailure {
    /// It fails with [`HistoryError::Load`](crate::HistoryError::Load),
    /// [`LoadTimeout`](crate::HistoryError::LoadTimeout) or [`LoadPanicked`](crate::HistoryError::LoadPanicked) before
    /// the model is called.
    #[default]
    Fail,
    /// The model is called without history; the report says so ([`HistoryStatus::Unavailable`](crate::report::HistoryStatus::Unavailable)).
    CallWithoutHistory,
}

/// What becomes of a reply that cannot be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnSaveFailure {
    /// The call fails with [`Unsaved`](crate::Unsaved), which carries the response: a paid answer is not lost.
    /// Streams have already been delivered, so for them this is [`Report`](Self::Report).
    #[default]
    Fail,
    /// The caller gets the response; the failure is in the report, which goes to the hook and to the caller's handle.
    Report,
}

/// What becomes of a stream that ends, fails or is dropped before the reply is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInterruption {
    /// Nothing is stored: the conversation is as it was before the call. So a caller who leaves in the middle of a
    /// stream loses question and answer.
    #[default]
    Discard,
    /// The input and the text so far are stored, marked [`incomplete`](crate::Exchange::incomplete). Half tool calls are
    /// not. Without any text nothing is stored.
    ///
    /// Repeating the call asks the model again: the caller's exchange id stays free, tool results may be sent again
    /// (the attempt is then left out of what is sent), and a caller that resends its list may have the text in it or
    /// not. A question that is asked again stands in the conversation twice, with the text between.
    KeepText,
    /// A stream that the caller drops is read to its end in the background and stored like any other, within
    /// [limits](DetachLimits). One that fails or ends early is discarded, and so is one beyond the limits.
    Detach,
}

/// Limits of the streams that an [`Engine`](crate::Engine) reads on in the background, without their callers
/// ([`OnInterruption::Detach`]).
///
/// A stream beyond them is treated as under [`OnInterruption::Discard`], and its report says so
/// ([`NotStored::DetachLimit`](crate::report::NotStored::DetachLimit)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetachLimits {
    /// The number of streams at one time, of all conversations together. The default is 1,024.
    pub max_streams: usize,
    /// The number of streams at one time of one conversation, so that no conversation takes the places of all others.
    /// The default is 4.
    pub max_per_conversation: usize,
    /// How long a stream is read on at most, measured from when its caller left; `None` is without a limit. Outside of
    /// a tokio runtime there is no clock and no limit. The default is 10 minutes.
    pub timeout: Option<Duration>,
}

impl Default for DetachLimits {
    fn default() -> Self {
        Self { max_streams: 1_024, max_per_conversation: 4, timeout: Some(Duration::from_secs(600)) }
    }
}

impl DetachLimits {
    /// Returns the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of streams at one time, of all conversations together. The default is 1,024.
    #[must_use]
    pub const fn max_streams(mut self, streams: usize) -> Self {
        self.max_streams = streams;
        self
    }

    /// Sets the number of streams at one time of one conversation. The default is 4.
    #[must_use]
    pub const fn max_per_conversation(mut self, streams: usize) -> Self {
        self.max_per_conversation = streams;
        self
    }

    /// Sets how long a stream is read on at most; `None` is without a limit. The default is 10 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

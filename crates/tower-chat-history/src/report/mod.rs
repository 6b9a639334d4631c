//! Reports of turns: what a turn loaded, sent and stored.
//!
//! The hook of the options ([`on_turn`](crate::HistoryOptions::on_turn)) receives the report of every turn that began. A
//! caller gets the report of its own call by a [`ReportHandle`]
//! ([`InConversation::with_report`](crate::InConversation::with_report)).

mod handle;
mod shape;
mod summary;
mod tokens;

use std::sync::Arc;

use tower_chat_history_context::{budget::WindowSource, plan::TranscriptError};
use tower_chat_history_core::{ConversationId, ExchangeId, Revision, Seq};

pub(crate) use self::handle::ReportSender;
pub use self::{
    handle::ReportHandle,
    shape::ResponseShape,
    summary::{SummaryCost, SummaryError, SummaryOutcome, SummaryReport},
    tokens::TurnTokens,
};
use crate::error::SaveError;

/// What a turn did. It holds ids and sizes, no message text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The exchange, under the caller's id or a generated one.
    pub exchange: ExchangeId,
    /// What there was to load.
    pub history: HistoryStatus,
    /// Messages that were loaded.
    pub messages_loaded: usize,
    /// Messages of window and input, as planned: without the caller's own head, with what an adapter then left out.
    pub messages_sent: usize,
    /// True if the load limit cut off exchanges of the window.
    pub truncated: bool,
    /// Where what the caller resent differs from the log, if it does and the
    /// [log was trusted](crate::policy::OnTranscriptMismatch::TrustLog). The default policy refuses such a call.
    pub transcript_mismatch: Option<TranscriptError>,
    /// Tool calls that a new question left unanswered.
    pub superseded_calls: usize,
    /// Whether the model saw less than the whole conversation: a compaction, a summary, a pruned log or the load limit stand
    /// before what was sent.
    pub abridged: bool,
    /// True if the reply is a stream.
    pub streamed: bool,
    /// Loaded messages that the request's types could not carry whole. The log keeps them as they are.
    pub downgraded: usize,
    /// What was counted, if there is a [budget](crate::budget).
    pub tokens: Option<TurnTokens>,
    /// Where the context window came from that the prompt had to fit, if it had to fit one.
    pub context_window: WindowSource,
    /// The summary that the turn waited for, if it did.
    pub summary: Option<SummaryReport>,
    /// What happened to the conversation's compaction since this engine last saw it: summaries in the background, and
    /// what other processes compacted, summarized or pruned. `None` if nothing did, and where it is not known: at the
    /// conversation's first turn under this engine, after some thousand other conversations, and after a deletion or
    /// truncation.
    pub since_last: Option<SinceLast>,
    /// What became of the exchange.
    pub outcome: Outcome,
}

/// What happened to a conversation's compaction between two turns, in exchanges of the log.
///
/// It is what the load shows, compared with what earlier reports of the engine have told. It is told once, by the first
/// turn that begins after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinceLast {
    /// How many exchanges left the window.
    pub evicted_exchanges: u64,
    /// How many exchanges more have their tool rounds left out, with those that left the window.
    pub rounds_left_out: u64,
    /// How many exchanges more have their tool results cleared, with those that left the window.
    pub cleared_exchanges: u64,
    /// How many exchanges more the summary tells of.
    pub summarized_exchanges: u64,
}

impl TurnReport {
    /// The log's revision after the turn, if the exchange is in it.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        match &self.outcome {
            Outcome::Stored { revision, .. } | Outcome::Duplicate { revision, .. } => Some(*revision),
            Outcome::NotStored(_) | Outcome::Failed(_) => None,
        }
    }

    /// Returns whether the exchange answers calls and another one was stored after the conversation was loaded for it.
    #[must_use]
    pub const fn is_moved(&self) -> bool {
        matches!(self.outcome, Outcome::Stored { moved: true, .. })
    }

    /// What the turn went on without, if it had to.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        let trimming = self.tokens.map(|tokens| tokens.trimming).unwrap_or_default();
        if self.history == HistoryStatus::Unavailable {
            Some(Fallback::WithoutHistory)
        } else if self.summary.as_ref().is_some_and(|summary| !summary.is_summarized()) {
            Some(Fallback::WithoutNewSummary)
        } else if trimming.left_out_summary {
            Some(Fallback::WithoutSummary)
        } else {
            trimming.trimmer_failed.then_some(Fallback::WithoutTrimmer)
        }
    }

    /// Why the exchange could not be stored, if it was tried and failed.
    #[must_use]
    pub fn save_error(&self) -> Option<&SaveError> {
        match &self.outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Stored { .. } | Outcome::Duplicate { .. } | Outcome::NotStored(_) => None,
        }
    }
}

/// What there was to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryStatus {
    /// Nothing: this is the conversation's first turn.
    Absent,
    /// The conversation's window.
    Loaded,
    /// The store failed, and the model was called without history.
    Unavailable,
}

impl HistoryStatus {
    /// A short constant name of it, for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Loaded => "loaded",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What a turn went on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fallback {
    /// The history: it could not be loaded.
    WithoutHistory,
    /// The summary that the turn waited for: it was not made. The window was trimmed.
    WithoutNewSummary,
    /// The stored summary: there was no room for it.
    WithoutSummary,
    /// The [`Trimmer`](crate::budget::Trimmer): what it kept was too much, or it panicked.
    WithoutTrimmer,
}

impl Fallback {
    /// A short constant name of it, for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::WithoutHistory => "without_history",
            Self::WithoutNewSummary => "without_new_summary",
            Self::WithoutSummary => "without_summary",
            Self::WithoutTrimmer => "without_trimmer",
        }
    }
}

/// What became of an exchange.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is in the log.
    Stored {
        /// The log's revision after it.
        revision: Revision,
        /// Where it stands.
        seq: Seq,
        /// True if it answers calls and another exchange was stored after the conversation was loaded for it.
        moved: bool,
        /// True if the reply broke off and only its text was kept. It then stands under a generated id.
        incomplete: bool,
    },
    /// The caller's exchange id was recorded by another call meanwhile: the log has that call's reply, not this one's.
    /// A repeated attempt that finds its own exchange is [`Stored`](Self::Stored).
    Duplicate {
        /// The log's revision.
        revision: Revision,
        /// Where the recorded exchange stands.
        seq: Seq,
    },
    /// There was nothing to store.
    NotStored(NotStored),
    /// It could not be stored.
    Failed(Arc<SaveError>),
}

impl Outcome {
    /// A short constant name of it, for metrics and spans: a reason where there was nothing to store.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stored { incomplete: false, .. } => "stored",
            Self::Stored { incomplete: true, .. } => "stored_incomplete",
            Self::Duplicate { .. } => "duplicate",
            Self::NotStored(NotStored::Asked) => "not_stored",
            Self::NotStored(NotStored::NoReply) => "no_reply",
            Self::NotStored(NotStored::UnreadableReply(_)) => "unreadable_reply",
            Self::NotStored(NotStored::Interrupted) => "interrupted",
            Self::NotStored(NotStored::Stalled) => "stalled",
            Self::NotStored(NotStored::DetachLimit) => "detach_limit",
            Self::NotStored(NotStored::CallFailed) => "call_failed",
            Self::NotStored(NotStored::Abandoned) => "abandoned",
            Self::Failed(_) => "failed",
        }
    }
}

/// Why there was nothing to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStored {
    /// The caller asked for it.
    Asked,
    /// The response had an empty list of choices.
    NoReply,
    /// The adapter could not read the response, which looks like this. The caller got it unchanged. The engine logs a
    /// warning for the first response of each shape.
    UnreadableReply(ResponseShape),
    /// The stream broke off before the reply was complete.
    Interrupted,
    /// The stream brought no item for as long as the [idle timeout](crate::HistoryOptions::stream_idle_timeout).
    Stalled,
    /// The caller left in the middle of a stream that was to be read on without it, and the
    /// [limits](crate::policy::DetachLimits) did not let it be read on, or not to its end.
    DetachLimit,
    /// The model's call failed, and whoever made it [said so](crate::Turn::fail): the layer does.
    CallFailed,
    /// There was no reply: the turn was dropped before, as it is when its caller leaves.
    Abandoned,
}

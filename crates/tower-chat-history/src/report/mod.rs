//! Reports of turns: what a turn loaded, sent and stored.
//!
//! The hook of the options ([`on_turn`](crate::HistoryOptions::on_turn)) receives the report of every turn that
//! began. A caller gets the report of its own call by a [`ReportHandle`]
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

/// The report of one turn. It contains ids and sizes, but no message text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The exchange, under the caller's id or a generated one.
    pub exchange: ExchangeId,
    /// The result of loading the history.
    pub history: HistoryStatus,
    /// The number of messages that were loaded.
    pub messages_loaded: usize,
    /// The number of messages in window and input, as planned: without the caller's head, and including messages that
    /// an adapter then left out.
    pub messages_sent: usize,
    /// True if the load limit cut off exchanges of the window.
    pub truncated: bool,
    /// The last message that the caller resent and that differs from the log, if the policy is to
    /// [trust the log](crate::policy::OnTranscriptMismatch::TrustLog). The default policy refuses such a call.
    pub transcript_mismatch: Option<TranscriptError>,
    /// The number of open tool calls that a new user message superseded.
    pub superseded_calls: usize,
    /// True if the model saw less than the whole conversation, because of a compaction, a summary, a pruned log, the
    /// load limit, or trimming in this turn.
    pub abridged: bool,
    /// True if the reply is a stream.
    pub streamed: bool,
    /// The number of loaded messages that the request's types could not represent without loss. The log is not changed.
    pub downgraded: usize,
    /// The token counts, if there is a [budget](crate::budget).
    pub tokens: Option<TurnTokens>,
    /// The source of the context window that the prompt had to fit, if there is one.
    pub context_window: WindowSource,
    /// The report of the summary that the turn waited for, if it waited for one.
    pub summary: Option<SummaryReport>,
    /// The changes of the conversation's compaction since this engine last saw it: summaries in the background, and
    /// compactions, summaries and prunes of other processes. `None` if there were none. Also `None` if they are not
    /// known: at the conversation's first turn with this engine, after turns of some thousand other conversations,
    /// and after a deletion or truncation.
    pub since_last: Option<SinceLast>,
    /// The outcome of the turn's save.
    pub outcome: Outcome,
}

/// The changes of a conversation's compaction between two turns, in exchanges of the log.
///
/// They are the differences between the load and the earlier reports of this engine. Each change is reported once, by
/// the first turn that begins after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinceLast {
    /// The number of exchanges that left the window.
    pub evicted_exchanges: u64,
    /// The number of exchanges whose tool rounds are left out since then, including those that left the window.
    pub rounds_left_out: u64,
    /// The number of exchanges whose tool results are cleared since then, including those that left the window.
    pub cleared_exchanges: u64,
    /// The number of exchanges that the summary covers since then.
    pub summarized_exchanges: u64,
}

impl TurnReport {
    /// Returns the log's revision after the turn, if the log has the exchange.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        match &self.outcome {
            Outcome::Stored { revision, .. } | Outcome::Duplicate { revision, .. } => Some(*revision),
            Outcome::NotStored(_) | Outcome::Failed(_) => None,
        }
    }

    /// Returns `true` if the exchange answers tool calls, and another exchange was stored between its load and its
    /// save.
    #[must_use]
    pub const fn is_moved(&self) -> bool {
        matches!(self.outcome, Outcome::Stored { moved: true, .. })
    }

    /// Returns the fallback that the turn used, if something failed or did not fit.
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

    /// Returns the error of the save, if it failed.
    #[must_use]
    pub fn save_error(&self) -> Option<&SaveError> {
        match &self.outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Stored { .. } | Outcome::Duplicate { .. } | Outcome::NotStored(_) => None,
        }
    }
}

/// The result of loading a conversation's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryStatus {
    /// There is no history: this is the conversation's first turn.
    Absent,
    /// The conversation's window was loaded.
    Loaded,
    /// The store failed, and the model was called without history.
    Unavailable,
}

impl HistoryStatus {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Loaded => "loaded",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The part without which a turn continued, because it failed or did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fallback {
    /// The history could not be loaded.
    WithoutHistory,
    /// The summary that the turn waited for was not made. The window was trimmed.
    WithoutNewSummary,
    /// There was no room for the stored summary.
    WithoutSummary,
    /// The [`Trimmer`](crate::budget::Trimmer) kept too much, or it panicked.
    WithoutTrimmer,
}

impl Fallback {
    /// Returns a short constant name for metrics and spans.
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

/// The outcome of an exchange's save.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The exchange is in the log.
    Stored {
        /// The log's revision after the save.
        revision: Revision,
        /// The position of the exchange.
        seq: Seq,
        /// True if the exchange answers tool calls, and another exchange was stored between its load and its save.
        moved: bool,
        /// True if the reply broke off and only its text was stored. The exchange then has a generated id.
        incomplete: bool,
    },
    /// Another call has stored an exchange under the caller's exchange id during this turn: the log has the reply of
    /// that call, not of this one. If a retry of the save finds its own exchange, the outcome is
    /// [`Stored`](Self::Stored).
    Duplicate {
        /// The log's revision.
        revision: Revision,
        /// The position of the other call's exchange.
        seq: Seq,
    },
    /// There was nothing to store.
    NotStored(NotStored),
    /// The exchange could not be stored.
    Failed(Arc<SaveError>),
}

impl Outcome {
    /// Returns a short constant name for metrics and spans. If there was nothing to store, it names the reason.
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

/// The reason why there was nothing to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStored {
    /// The caller disabled storing ([`CallOptions::dont_store`](crate::CallOptions::dont_store)).
    Asked,
    /// The response had an empty list of choices.
    NoReply,
    /// The adapter could not read the response, which has this shape. The caller got it unchanged. The engine logs a
    /// warning for the first response of each shape.
    UnreadableReply(ResponseShape),
    /// The stream broke off before the reply was complete.
    Interrupted,
    /// The stream yielded no item within the [idle timeout](crate::HistoryOptions::stream_idle_timeout).
    Stalled,
    /// The caller dropped a stream that was to be detached, but the [limits](crate::policy::DetachLimits) were
    /// reached before it was read to its end.
    DetachLimit,
    /// The model call failed. The layer, or another caller of the engine, reports this with
    /// [`Turn::fail`](crate::Turn::fail).
    CallFailed,
    /// The turn was dropped before there was a reply, for example because its caller left.
    Abandoned,
}

//! Reports of turns: what a turn loaded, sent and stored.
//!
//! Reports reach a program in two ways. The hook [`on_turn`](crate::HistoryOptions::on_turn) receives the report of
//! every turn that began. A [`ReportHandle`] receives the report of one call
//! ([`InConversation::with_report`](crate::InConversation::with_report)).

mod handle;
mod recall;
mod shape;
mod summary;
mod tokens;
mod translation;

use std::sync::Arc;

use tower_chat_history_context::{budget::WindowSource, plan::TranscriptError};
use tower_chat_history_core::{ConversationId, ExchangeId, Revision, Seq};

pub(crate) use self::handle::ReportSender;
pub use self::{
    handle::ReportHandle,
    recall::{RecallOutcome, RecallReport},
    shape::ResponseShape,
    summary::{SummaryCost, SummaryError, SummaryOutcome, SummaryReport},
    tokens::TurnTokens,
    translation::TranslationReport,
};
use crate::error::SaveError;

/// The report of one turn. It contains ids and sizes, but no message text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The id of the exchange: the caller's, or a generated one.
    pub exchange: ExchangeId,
    /// The result of loading the history.
    pub history: HistoryStatus,
    /// The number of messages that were loaded.
    pub messages_loaded: usize,
    /// The number of messages in summary, window and input, as planned. The summary is one message. The head is not
    /// included. Messages that an adapter represents only in part are included.
    pub messages_sent: usize,
    /// True if the load left out older exchanges of the window because of the load limit.
    pub truncated: bool,
    /// The difference between the messages that the caller resent and the log, under the policy
    /// [`TrustLog`](crate::policy::OnTranscriptMismatch::TrustLog). With the default policy, such a call fails and
    /// has no report.
    pub transcript_mismatch: Option<TranscriptError>,
    /// The number of open tool calls that a new user message superseded.
    pub superseded_calls: usize,
    /// True if the prompt contained less than the whole conversation, because of a compaction, a summary, a prune,
    /// the load limit, trimming in this turn, or a compaction of the [provider](Self::begins_with_compaction).
    pub abridged: bool,
    /// True if the reply is a stream.
    pub streamed: bool,
    /// The number of loaded messages that the request's types could not represent without loss. The log is not changed.
    pub downgraded: usize,
    /// True if the provider refused the call because it could not read encrypted elements of stored replies, and the
    /// model was called once more without them. See [`Turn::repair`](crate::Turn::repair).
    pub repaired: bool,
    /// The number of messages whose reasoning was left out, because the prompt before it is not the one that it was
    /// made under, or because another provider made it. Providers would refuse it. Ids that were left out for the same
    /// reason do not count.
    pub reasoning_left_out: usize,
    /// True if the newest reasoning of the window that is bound to its prompt was made under another head: other
    /// instructions, tools or response format. A head that changes in every call makes all such reasoning invalid.
    pub head_changed: bool,
    /// The exchanges that were sent in a translation, because they are stored in another [dialect](crate::dialect).
    /// `None` if there are none.
    pub translation: Option<TranslationReport>,
    /// True if the prompt began with a compaction that the provider made, which [stands
    /// for](crate::dialect::Index::restarts) everything before it.
    pub begins_with_compaction: bool,
    /// The token counts, if there is a [budget](crate::budget).
    pub tokens: Option<TurnTokens>,
    /// The source of the context window that the prompt had to fit, if there is one.
    pub context_window: WindowSource,
    /// The report of the search for messages to show again. `None` if there was no search: without
    /// [recall](crate::recall), if the prompt contains the whole log, if the input continues a turn, or if the prompt
    /// has no room.
    pub recall: Option<RecallReport>,
    /// The report of the summary that the turn waited for, if it waited for one.
    pub summary: Option<SummaryReport>,
    /// The changes of the conversation's compaction between its previous turn in this engine and this one: summaries
    /// in the background, and compactions, summaries and prunes of other processes.
    ///
    /// `None` if there were no changes, or if they are not known. They are not known for the conversation's first
    /// turn in this engine, after a deletion or truncation, and if turns of more than about 4,000 other conversations
    /// came in between.
    pub since_last: Option<SinceLast>,
    /// The outcome of the turn's save.
    pub outcome: Outcome,
}

/// The changes of a conversation's compaction between two turns, in exchanges of the log.
///
/// Each change is reported once, by the first turn that begins after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinceLast {
    /// The number of exchanges that left the window.
    pub evicted_exchanges: u64,
    /// The number of exchanges whose tool rounds are now left out and were not before. Exchanges that left the window
    /// are included.
    pub rounds_left_out: u64,
    /// The number of exchanges whose tool results are now cleared and were not before. Exchanges that left the window
    /// are included.
    pub cleared_exchanges: u64,
    /// The number of exchanges that the summary now covers and did not cover before.
    pub summarized_exchanges: u64,
}

impl TurnReport {
    /// Returns the log's revision after the turn, if the exchange is stored under its id.
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

    /// Returns the part of the prompt that failed or did not fit, if the turn continued without it: the history, a
    /// summary, the trimmer, or encrypted elements.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        let trimming = self.tokens.map(|tokens| tokens.trimming).unwrap_or_default();
        if self.history == HistoryStatus::Unavailable {
            Some(Fallback::WithoutHistory)
        } else if self.repaired {
            Some(Fallback::WithoutEncrypted)
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
    /// The conversation does not exist yet, or was deleted: there is no history.
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

/// The part of the prompt that failed or did not fit, so that the turn continued without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fallback {
    /// The turn continued without history, because it could not be loaded.
    WithoutHistory,
    /// The turn continued without encrypted elements of stored replies, because the provider could not read them.
    WithoutEncrypted,
    /// The turn continued without the summary that it waited for, because no summary was made. The window was trimmed
    /// without it.
    WithoutNewSummary,
    /// The turn continued without the stored summary, because there was no room for it.
    WithoutSummary,
    /// The turn continued without the [`Trimmer`](crate::budget::Trimmer), because its window was too large.
    WithoutTrimmer,
}

impl Fallback {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::WithoutHistory => "without_history",
            Self::WithoutEncrypted => "without_encrypted",
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
    /// During this turn, another call stored its exchange under the same exchange id. The log contains the reply of
    /// that call, not of this one. (If a retried save finds the exchange of its own earlier attempt, the outcome is
    /// [`Stored`](Self::Stored).)
    Duplicate {
        /// The log's revision.
        revision: Revision,
        /// The position of the other call's exchange.
        seq: Seq,
    },
    /// Nothing was stored, for this reason.
    NotStored(NotStored),
    /// The exchange could not be stored.
    Failed(Arc<SaveError>),
}

impl Outcome {
    /// Returns a short constant name for metrics and spans. For [`NotStored`](Self::NotStored), it is the name of the
    /// reason.
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

/// The reason why nothing was stored, although no save failed.
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
    /// The caller dropped a stream under [`OnInterruption::Detach`](crate::policy::OnInterruption::Detach), but a
    /// [limit](crate::policy::DetachLimits) was reached before the stream ended.
    DetachLimit,
    /// The model call failed. The layer, or another caller of the engine, reports this with
    /// [`Turn::fail`](crate::Turn::fail).
    CallFailed,
    /// The turn was dropped before its reply was complete, for example because its caller left.
    Abandoned,
}

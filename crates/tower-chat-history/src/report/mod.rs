//! Reports of turns: what a turn loaded, sent and stored.
//!
//! Reports reach a program in two ways. The hook [`on_turn`](crate::HistoryOptions::on_turn) receives the report of
//! every turn that began. A [`ReportHandle`] receives the report of one call
//! ([`InConversation::with_report`](crate::InConversation::with_report)).

mod summary;

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use crate::context::{
    budget::{PromptTokens, Trimming, WindowSource},
    plan::TranscriptError,
};
use futures_channel::oneshot;
use futures_util::FutureExt as _;
use tower_chat_history_core::{ConversationId, ExchangeId, LeftOut, Revision, Seq};

pub use self::summary::{SummaryCost, SummaryError, SummaryOutcome, SummaryReport};
use crate::{error::SaveError, recall::RecallError, refusal::Remedy};

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
    /// The remedies with which the model was called again after a refusal. See
    /// [`Turn::remedy`](crate::Turn::remedy).
    pub remedies: Vec<Remedy>,
    /// The number of messages whose reasoning was left out, because the prompt before it is not the one that it was
    /// made under, or because another provider made it. Providers would refuse it. Ids that were left out for the same
    /// reason do not count.
    pub reasoning_left_out: usize,
    /// True if the newest reasoning of the window that is bound to its prompt was made under another head: other
    /// instructions, tools or response format. A head that changes in every call makes all such reasoning invalid.
    pub head_changed: bool,
    /// The number of images, audio, videos and documents of the history that were sent as a constant text, because the
    /// [reader](crate::compat) does not accept them, or not as many.
    pub media_left_out: usize,
    /// The size of the data that these media have inline, in bytes as they would have been sent (base64).
    pub media_bytes_left_out: u64,
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
    pub outcome: TurnOutcome,
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
            TurnOutcome::Stored { revision, .. } | TurnOutcome::Duplicate { revision, .. } => Some(*revision),
            TurnOutcome::NotStored(_) | TurnOutcome::Failed(_) => None,
        }
    }

    /// Returns `true` if the exchange answers tool calls, and another exchange was stored between its load and its
    /// save.
    #[must_use]
    pub const fn is_moved(&self) -> bool {
        matches!(self.outcome, TurnOutcome::Stored { moved: true, .. })
    }

    /// Returns the part of the prompt that failed or did not fit, if the turn continued without it: the history, a
    /// summary, the trimmer, or encrypted elements.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        let trimming = self.tokens.map(|tokens| tokens.trimming).unwrap_or_default();
        if self.history == HistoryStatus::Unavailable {
            Some(Fallback::WithoutHistory)
        } else if self.remedies.contains(&Remedy::WithoutEncrypted) {
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
            TurnOutcome::Failed(error) => Some(error),
            TurnOutcome::Stored { .. } | TurnOutcome::Duplicate { .. } | TurnOutcome::NotStored(_) => None,
        }
    }
}

/// The token counts of a turn: the sizes of the prompt's parts, and of the parts that were left out to make it fit.
/// Unless stated otherwise, sizes are in tokens as the turn's counter counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnTokens {
    /// The size of the prompt that was sent.
    pub prompt: PromptTokens,
    /// The largest allowed size of the prompt: the context window minus the reply reserve, in tokens of the counter,
    /// with the [correction](Self::calibration). `u64::MAX` if there is no limit.
    pub limit: u64,
    /// The reply reserve, in tokens as the provider counts them.
    pub reply_reserve: u64,
    /// The value, in tokens, to which the request's own reply limit was lowered, if that was necessary.
    pub reply_limit: Option<u32>,
    /// The number of messages that this turn left out. Messages that earlier compactions left out are not included.
    pub evicted_messages: usize,
    /// The number of tokens that this turn removed: those of these messages, and those that a compaction saved in tool
    /// results and in old reasoning.
    pub evicted_tokens: u64,
    /// The reason why the window had to be made smaller, and the way in which this was done.
    pub trimming: Trimming,
    /// The number of tokens that this prompt is smaller because [old
    /// reasoning](crate::ContextOptions::old_reasoning) is left out of it, in this turn or earlier. Without that option, it
    /// is 0.
    pub reasoning_saved: u64,
    /// The number of tokens in this prompt of earlier turns' reasoning that is bound to nothing. If old reasoning is
    /// not [left out](crate::ContextOptions::old_reasoning), it is not counted, and this is 0.
    pub reasoning_sent_again: u64,
    /// The size of the [cached prefix](crate::glossary): the tokens at the beginning of this prompt that also begin
    /// the previous prompt of the conversation in this process. A provider's prefix cache can serve them. `None` for
    /// the first prompt, and if nothing observes the turn (no subscriber, hook, handle or meter).
    pub cached_prefix: Option<u64>,
    /// True if this turn planned a new compaction, which is stored with the exchange and applies to later calls. Two
    /// compactions do not count: one that was stored with a [summary](TurnReport::summary) before the call, and
    /// one that is stored after the reply, which the [next report](TurnReport::since_last) shows.
    pub compacted: bool,
    /// True if a part was left out of this prompt only: the compaction for later calls leaves out less.
    pub for_this_call: bool,
    /// The [calibration](crate::ContextBudget::calibrate) factor, learned from the usage that the provider reported in
    /// this conversation: provider tokens per counted token, in a prompt of the largest size. It is from 1 to 1.5, and
    /// from 0.8 to 2 if the counter is an [estimate](crate::tokens::TokenCounter::is_estimate). It is 1 before the
    /// first report, and if the prompt fits only without the correction.
    pub calibration: f64,
    /// The prompt's size in tokens, as the provider reported it.
    pub reported: Option<u64>,
    /// True if the server seems to have cut off the beginning of the prompt without an error, as Ollama does: the
    /// prompt is larger than the previous one, and the reported size is smaller. Set the server's context window as the
    /// [budget](crate::ContextBudget::tokens).
    pub cut_by_server: bool,
}

impl TurnTokens {
    /// Returns the prompt's size in tokens before this turn left anything out. Messages that earlier compactions left
    /// out are not included.
    #[must_use]
    pub const fn before(&self) -> u64 {
        self.prompt.total().saturating_add(self.evicted_tokens)
    }

    /// Returns the [cached prefix](Self::cached_prefix) as a share of the prompt, from 0 to 1.
    #[must_use]
    pub fn cached_prefix_ratio(&self) -> Option<f64> {
        // The casts are exact: numbers of tokens are far below 2^53.
        let total = self.prompt.total();
        self.cached_prefix.filter(|_| total > 0).map(|cached_prefix| cached_prefix as f64 / total as f64)
    }

    /// Returns the relative error of the prompt's token count: 0.1 means that the provider counted 10% more tokens
    /// than the counter.
    #[must_use]
    pub fn estimate_error(&self) -> Option<f64> {
        let counted = self.prompt.total();
        self.reported.filter(|_| counted > 0).map(|reported| reported as f64 / counted as f64 - 1.0)
    }
}

/// The exchanges in a turn's prompt that are stored in another [dialect](crate::dialect) than that of the call, and were
/// translated ([`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate)). Exchanges that a cut or the
/// budget leaves out do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranslationReport {
    /// The number of exchanges of which the prompt has a translated message.
    pub exchanges: usize,
    /// The parts that were left out of them, because only the other provider can use them, or because the dialect of
    /// the call has no form for them.
    pub left_out: LeftOut,
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
pub enum TurnOutcome {
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

impl TurnOutcome {
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

/// The shape of a response that an adapter cannot read as a chat completion. It contains no text of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseShape {
    /// A message or an event of Anthropic's Messages API.
    AnthropicMessage,
    /// A response or an event of Gemini's own API.
    GeminiResponse,
    /// A response or an event of OpenAI's Responses API.
    OpenAiResponse,
    /// A response of Amazon Bedrock's Converse API.
    BedrockConverse,
    /// A response of Ollama's own chat API.
    OllamaChat,
    /// An error, of the whole response or of the choice that would be stored.
    Error,
    /// JSON of an unknown kind, without choices.
    NoChoices,
    /// A choice without a message.
    NoMessage,
    /// A value with more than [128 levels](crate::adapt::nested::MAX_LEVELS) of lists and objects.
    TooDeep,
    /// A body that is not JSON.
    NotJson,
    /// A body whose content type is neither that of JSON nor that of events.
    ContentType,
    /// A body with a content encoding that the HTTP client has not decoded.
    Encoded,
    /// A body that is larger than the adapter reads.
    TooLarge,
    /// A response to a call of which the adapter does not know how its response is read.
    UnknownCall,
}

impl ResponseShape {
    /// Returns a short constant name for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessage => "Anthropic message",
            Self::GeminiResponse => "Gemini response",
            Self::OpenAiResponse => "OpenAI response",
            Self::BedrockConverse => "Bedrock Converse response",
            Self::OllamaChat => "Ollama chat response",
            Self::Error => "error",
            Self::NoChoices => "JSON without choices",
            Self::NoMessage => "choice without a message",
            Self::TooDeep => "JSON of too many levels",
            Self::NotJson => "not JSON",
            Self::ContentType => "body of another content type",
            Self::Encoded => "encoded body",
            Self::TooLarge => "body over the size limit",
            Self::UnknownCall => "response to an unknown call",
        }
    }
}

impl fmt::Display for ResponseShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The report of the [recall](crate::recall) of one turn. It contains sizes, and no message text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecallReport {
    /// The outcome.
    pub outcome: RecallOutcome,
    /// The number of exchanges of which messages were shown.
    pub exchanges: usize,
    /// The number of messages that were shown.
    pub messages: usize,
    /// The size of the recalled messages in the prompt, in tokens.
    pub tokens: u64,
    /// The largest allowed size, in tokens.
    pub allowance: u64,
    /// The score of the best message that was found. Scores of different searches cannot be compared.
    pub best_score: Option<f64>,
    /// The number of conversations that were searched. It is greater than 1 only if the search
    /// [covers](crate::recall::Recall::covers_others) other conversations, and 0 if the search failed.
    pub conversations: u32,
    /// The number of other conversations that could not be searched, or not in time. Nothing of them was shown.
    pub failed_conversations: u32,
    /// `true` if there are so many other conversations that newer ones may have been left out.
    pub is_incomplete: bool,
    /// The duration of the search.
    pub took: Duration,
}

/// The outcome of a search for messages to show again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RecallOutcome {
    /// Messages were shown.
    Shown,
    /// Nothing mattered enough.
    Nothing,
    /// The search failed, and the model was called without recalled messages.
    Failed(Arc<RecallError>),
}

impl RecallOutcome {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Nothing => "nothing",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the name of the kind of error, if the search failed.
    #[must_use]
    pub fn error_kind(&self) -> Option<&'static str> {
        match self {
            Self::Failed(error) => Some(error.kind()),
            Self::Shown | Self::Nothing => None,
        }
    }
}

/// Receives a call's [`TurnReport`].
///
/// The handle resolves when the turn ends: for a unary call after the save, and for a stream after the save at its
/// end, or after its drop. It resolves to `None` if the call failed or was dropped: the caller then has the error, or
/// has left. If a call is cloned and retried, its one handle receives the report of the first attempt that does not
/// fail.
pub struct ReportHandle(oneshot::Receiver<Arc<TurnReport>>);

/// The sender of a [`ReportHandle`], shared by the clones of a call.
#[derive(Clone)]
pub(crate) struct ReportSender(Arc<Mutex<Option<oneshot::Sender<Arc<TurnReport>>>>>);

impl ReportSender {
    pub(crate) fn send(&self, report: Arc<TurnReport>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The caller may have dropped the handle.
            let _ = sender.send(report);
        }
    }
}

impl ReportHandle {
    pub(crate) fn new() -> (ReportSender, Self) {
        let (sender, receiver) = oneshot::channel();
        (ReportSender(Arc::new(Mutex::new(Some(sender)))), Self(receiver))
    }

    /// Returns the report if the turn has already ended, without waiting.
    pub fn now(&mut self) -> Option<Arc<TurnReport>> {
        self.0.try_recv().ok().flatten()
    }
}

impl Future for ReportHandle {
    type Output = Option<Arc<TurnReport>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context).map(Result::ok)
    }
}

impl fmt::Debug for ReportHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportHandle").finish_non_exhaustive()
    }
}

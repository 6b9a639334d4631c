#![doc = include_str!("../../docs/recall.md")]
#![cfg_attr(feature = "recall", doc = "\n")]
#![cfg_attr(feature = "recall", doc = include_str!("../../docs/recall-search.md"))]

#[cfg(feature = "recall")]
mod analyzer;
#[cfg(feature = "recall")]
mod embedder;
#[cfg(feature = "recall")]
mod gate;
#[cfg(feature = "recall")]
mod log;
#[cfg(feature = "recall")]
mod log_recall;
#[cfg(feature = "recall")]
mod passage;
#[cfg(feature = "recall")]
mod search;
#[cfg(feature = "recall")]
mod select;
#[cfg(feature = "recall")]
mod shown;
#[cfg(feature = "recall")]
mod time;
#[cfg(feature = "recall")]
mod tool;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tower_chat_history_core::{
    ChatCompletions, Citation, ConversationId, Dialect, Message, MessageError, Prefix, Recalled, Revision, Seq,
    StoreError,
};

#[cfg(feature = "recall")]
pub use self::{
    analyzer::{Analyzer, Language},
    embedder::{EmbedError, Embedder, ServiceEmbedder},
    gate::{Decision, Gate},
    log::{Ask, Findings, LogSearch, Meaning, Others, Preparation, SearchAnswer, SearchError, SearchScope},
    log_recall::LogRecall,
    passage::is_recallable,
    search::{Hit, LogTerms, Ranking, Search, fuse},
    select::{Selector, cited},
    shown::{render, render_exchange, render_frame, render_message},
    tool::{ArgumentsError, SearchTool, ToolError},
};
use crate::error::BoxError;

/// Finds messages of a conversation that are before its window and matter to a new input, and if it
/// [covers](Self::covers_others) other conversations, messages of these.
///
/// The engine calls it for inputs that open a turn, if the log has exchanges that the prompt does not contain, or if
/// other conversations are covered.
#[async_trait]
pub trait Recall: fmt::Debug + Send + Sync + 'static {
    /// Selects messages to show again before the input. The message with them may be one of [`ChatCompletions`] or of
    /// the dialect of the call. The engine composes it again in the dialect of the call.
    ///
    /// # Errors
    ///
    /// If this returns an error, or takes longer than the [timeout](RecallOptions::timeout), the model is called without
    /// recalled messages.
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError>;

    /// Returns `true` if the search for this conversation also covers other conversations. Then the engine searches
    /// also if the prompt contains the whole log, and for the first turn of a conversation. The default is `false`.
    fn covers_others(&self, conversation: &ConversationId) -> bool {
        let _ = conversation;
        false
    }

    /// Prepares later searches, for example by embedding exchanges that have left the window. Returns `true` if more
    /// work is left. The default does nothing.
    ///
    /// The engine calls it in the background, one call at a time for each conversation, after a turn that is stored:
    /// - the first turn after the window's start moved,
    /// - a turn whose search found [unprepared](Recollection::unprepared) exchanges, or took too long,
    /// - the next turn after a preparation that failed or has work left.
    ///
    /// # Errors
    ///
    /// An error is logged. The next turn of the conversation tries again.
    async fn prepare(&self, request: PrepareRequest<'_>) -> Result<bool, RecallError> {
        let _ = request;
        Ok(false)
    }

    /// Removes what is in memory of the conversations under the prefix. [`Engine::forget`](crate::Engine::forget) calls
    /// it, after conversations were erased. The default does nothing.
    fn forget(&self, under: &Prefix) {
        let _ = under;
    }
}

#[async_trait]
impl<R: Recall + ?Sized> Recall for Arc<R> {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        (**self).recall(request).await
    }

    fn covers_others(&self, conversation: &ConversationId) -> bool {
        (**self).covers_others(conversation)
    }

    async fn prepare(&self, request: PrepareRequest<'_>) -> Result<bool, RecallError> {
        (**self).prepare(request).await
    }

    fn forget(&self, under: &Prefix) {
        (**self).forget(under);
    }
}

/// The options of recall. Pass them to [`HistoryOptions::recall`](crate::HistoryOptions::recall) to show earlier messages
/// again when a new input needs them.
#[derive(Clone, Debug)]
pub struct RecallOptions {
    pub(crate) recall: Arc<dyn Recall>,
    pub(crate) timeout: Duration,
    pub(crate) prepare_timeout: Duration,
    pub(crate) max_preparations: usize,
    percent: u8,
    max_tokens: Option<u32>,
}

/// The allowance of a call without a budget, in tokens.
const WITHOUT_BUDGET: u64 = 2_000;

/// The smallest allowance for which a search is made, in tokens. Even one short message needs more with its frame.
pub(crate) const LEAST_ALLOWANCE: u64 = 64;

impl RecallOptions {
    /// The default [timeout](Self::timeout) of a search.
    pub const TIMEOUT: Duration = Duration::from_millis(250);

    /// Creates the default options, with this search.
    pub fn new(recall: impl Recall) -> Self {
        Self {
            recall: Arc::new(recall),
            timeout: Self::TIMEOUT,
            prepare_timeout: Duration::from_secs(60),
            max_preparations: 16,
            percent: 12,
            max_tokens: None,
        }
    }

    /// Sets the largest size of recalled messages as a percentage of the largest allowed prompt. Values above 100 mean
    /// 100. The default is 12. Without a [budget](crate::budget), the size is 2,000 tokens.
    #[must_use]
    pub const fn percent(mut self, percent: u8) -> Self {
        self.percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// Sets the largest size of recalled messages in tokens, in addition to the [percentage](Self::percent). The default
    /// is no such limit.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the timeout of a search. After it, the model is called without recalled messages. It is checked whenever
    /// the search waits or pauses, so a search that computes without pauses ends later. While tasks are always ready,
    /// tokio looks at its timers only after 61 polls, so a search with pauses can end about 60 milliseconds late. The
    /// default is 250 milliseconds. Set a longer one for a search [by meaning](crate::recall#by-meaning), which calls a model.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout of a [preparation](Recall::prepare), which runs in the background. The work that is done
    /// until then stays. The default is 60 seconds.
    #[must_use]
    pub const fn prepare_timeout(mut self, timeout: Duration) -> Self {
        self.prepare_timeout = timeout;
        self
    }

    /// Sets the largest number of [preparations](Recall::prepare) that an engine runs at the same time, over all
    /// conversations. If so many are running, a later turn of the conversation makes the preparation. The default is
    /// 16.
    #[must_use]
    pub const fn max_preparations(mut self, preparations: usize) -> Self {
        self.max_preparations = preparations;
        self
    }

    /// Returns `true` if the search covers other conversations than this one.
    pub(crate) fn covers_others(&self, conversation: &ConversationId) -> bool {
        self.recall.covers_others(conversation)
    }

    /// Returns the largest allowed size, in tokens, for prompts of at most `limit` tokens.
    pub(crate) fn allowance(&self, limit: Option<u64>) -> u64 {
        let share = limit.map_or(WITHOUT_BUDGET, |limit| {
            let percent = u64::from(self.percent);
            limit / 100 * percent + limit % 100 * percent / 100
        });
        share.min(self.max_tokens.map_or(u64::MAX, u64::from))
    }

    /// Returns the tokens that a plan reserves, for prompts of at most `limit` tokens: a quarter of the allowance, but
    /// enough for a search. If fewer are free, a compaction is due.
    pub(crate) fn reserve(&self, limit: Option<u64>) -> u64 {
        let allowance = self.allowance(limit);
        if allowance < LEAST_ALLOWANCE { 0 } else { (allowance / 4).max(LEAST_ALLOWANCE) }
    }
}

/// A request for messages to show again.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RecallRequest<'a> {
    /// The conversation.
    pub conversation: &'a ConversationId,
    /// The log's revision when the window was loaded, or `None` if the conversation does not exist yet.
    pub revision: Option<Revision>,
    /// The position from which the prompt contains the log. Only exchanges before it may be shown, and those of
    /// [other conversations](Recall::covers_others).
    pub before: Seq,
    /// The dialect of the call. Stores return messages of dialects that the core does not have unread.
    pub dialect: &'static dyn Dialect,
    /// The input of the call.
    pub input: &'a [Message],
    /// The messages that the prompt already shows again, with earlier turns.
    pub shown: &'a [Citation],
    /// The largest allowed size of the message, in tokens.
    pub allowance: u64,
    /// Counts the tokens of a message.
    pub cost: &'a (dyn Fn(&Message) -> u64 + Send + Sync),
    /// The [time](RecallOptions::timeout) after which the model is called without the result.
    pub timeout: Duration,
}

/// A request to prepare later searches.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PrepareRequest<'a> {
    /// The conversation.
    pub conversation: &'a ConversationId,
    /// The dialect of the conversation. Stores return messages of dialects that the core does not have unread.
    pub dialect: &'static dyn Dialect,
    /// The log's revision.
    pub revision: Revision,
    /// The start of the window. Exchanges at or after it are in prompts anyway.
    pub before: Seq,
}

/// The result of a [search](Recall::recall).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recollection {
    /// The messages to show, or `None` if nothing matters enough.
    pub recalled: Option<Recalled>,
    /// The score of the best message that was found, if scores exist. Scores of different searches cannot be compared.
    pub best_score: Option<f64>,
    /// The number of exchanges before the window that are not [prepared](Recall::prepare) yet.
    pub unprepared: u64,
    /// The number of conversations that were searched.
    pub conversations: u32,
    /// The number of [other conversations](Recall::covers_others) that could not be searched, or not in time.
    pub failed_conversations: u32,
    /// `true` if there are so many other conversations that newer ones may have been left out.
    pub is_incomplete: bool,
}

impl<'a> RecallRequest<'a> {
    /// Creates a request for this input, in [`ChatCompletions`], with the default timeout. The engine creates the
    /// requests of calls. Use this to test a search.
    #[must_use]
    pub const fn new(
        conversation: &'a ConversationId,
        revision: Option<Revision>,
        before: Seq,
        input: &'a [Message],
        allowance: u64,
        cost: &'a (dyn Fn(&Message) -> u64 + Send + Sync),
    ) -> Self {
        let timeout = RecallOptions::TIMEOUT;
        Self { conversation, revision, before, dialect: &ChatCompletions, input, shown: &[], allowance, cost, timeout }
    }

    /// Sets the dialect of the call.
    #[must_use]
    pub const fn dialect(mut self, dialect: &'static dyn Dialect) -> Self {
        self.dialect = dialect;
        self
    }
}

impl<'a> PrepareRequest<'a> {
    /// Creates a request for the exchanges before this position, in [`ChatCompletions`]. The engine creates the
    /// requests of turns. Use this to prepare a log that was imported.
    #[must_use]
    pub const fn new(conversation: &'a ConversationId, revision: Revision, before: Seq) -> Self {
        Self { conversation, dialect: &ChatCompletions, revision, before }
    }

    /// Sets the dialect of the conversation.
    #[must_use]
    pub const fn dialect(mut self, dialect: &'static dyn Dialect) -> Self {
        self.dialect = dialect;
        self
    }
}

impl Recollection {
    /// Creates the result of a search that found nothing to show.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            recalled: None,
            best_score: None,
            unprepared: 0,
            conversations: 1,
            failed_conversations: 0,
            is_incomplete: false,
        }
    }

    /// Creates the result of a search that shows these messages.
    #[must_use]
    pub fn shown(recalled: Recalled) -> Self {
        Self { recalled: Some(recalled), ..Self::nothing() }
    }
}

/// The result of a search that found nothing to show.
impl Default for Recollection {
    fn default() -> Self {
        Self::nothing()
    }
}

impl fmt::Debug for RecallRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecallRequest")
            .field("conversation", &self.conversation)
            .field("revision", &self.revision)
            .field("before", &self.before)
            .field("input", &self.input.len())
            .field("shown", &self.shown)
            .field("allowance", &self.allowance)
            .finish_non_exhaustive()
    }
}

/// The reason why no messages were recalled, although the call should have had some. The call itself does not fail.
///
/// It contains positions and sizes. It contains no message text, except for the error in [`Search`](Self::Search), which
/// the search itself wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecallError {
    /// The store failed.
    #[error("the messages to recall could not be read: {0}")]
    Store(#[from] StoreError),
    /// The search failed in another way.
    #[error("the search failed: {0}")]
    Search(#[source] BoxError),
    /// The search took longer than its [timeout](RecallOptions::timeout).
    #[error("the search took longer than {0:?}")]
    TimedOut(Duration),
    /// The message is larger than allowed.
    #[error("the recalled messages have {tokens} tokens, and {allowance} are allowed")]
    TooLarge {
        /// The size in tokens.
        tokens: u64,
        /// The largest allowed size in tokens.
        allowance: u64,
    },
    /// The message shows a part of the log that the prompt contains anyway.
    #[error("the recalled messages cite exchange {cited}, and the prompt contains the log from {before} on")]
    InWindow {
        /// The cited position.
        cited: Seq,
        /// The position from which the prompt contains the log.
        before: Seq,
    },
    /// The message is not a user message with a text and nothing else, in chat completions or in the dialect of the
    /// call.
    #[error("the recalled messages are not a user message with a text and nothing else")]
    NotAUserMessage,
    /// The [`Dialect`] of the call cannot read the message that it composed, which is a fault of
    /// its implementation.
    #[error("the dialect of the call cannot read the message with the recalled messages: {0}")]
    Composed(#[source] MessageError),
    /// The message has too many citations, or one without messages.
    #[error(
        "the recalled messages have {citations} citations: at most {max} are allowed, and none may be empty",
        max = Self::MAX_CITATIONS
    )]
    Citations {
        /// The number of citations.
        citations: usize,
    },
}

impl RecallError {
    /// The largest number of citations of one message. Even the largest prompts do not show so many.
    pub const MAX_CITATIONS: usize = 4_096;

    /// Creates the error for a search that failed.
    pub fn search(source: impl Into<BoxError>) -> Self {
        Self::Search(source.into())
    }

    /// Returns the text for a log event. It does not include the text of an error that the search itself returned,
    /// because that error may quote its input.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Search(_) => "the search failed".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Search(_) => "search",
            Self::TimedOut(_) => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::InWindow { .. } => "in_window",
            Self::NotAUserMessage => "not_a_user_message",
            Self::Composed(_) => "composed",
            Self::Citations { .. } => "citations",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    #[async_trait::async_trait]
    impl Recall for Nothing {
        async fn recall(&self, _: RecallRequest<'_>) -> Result<Recollection, RecallError> {
            Ok(Recollection::nothing())
        }

        async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
            Ok(false)
        }
    }

    #[test]
    fn the_allowance_is_a_share_of_the_limit_and_at_most_the_maximum() {
        let options = RecallOptions::new(Nothing);
        assert_eq!(
            [Some(10_000), Some(99), Some(u64::MAX), None].map(|limit| options.allowance(limit)),
            [1_200, 11, u64::MAX / 100 * 12 + 1, 2_000]
        );
        assert_eq!([10_000, 1_000, 500].map(|limit| options.reserve(Some(limit))), [300, 64, 0]);
        let options = options.percent(200).max_tokens(500);
        assert_eq!([Some(300), Some(10_000), None].map(|limit| options.allowance(limit)), [300, 500, 500]);
    }
}

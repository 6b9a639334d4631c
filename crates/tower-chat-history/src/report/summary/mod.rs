//! The report of a summary.

mod error;

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, Seq, StoreError};

pub use self::error::SummaryError;

/// The report of an attempt to make a summary. It contains sizes, but no text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The first exchange that the summary was to cover in addition to the previous summary.
    pub from: Seq,
    /// The first exchange after those that the summary covers, or was to cover.
    pub to: Seq,
    /// True if a call waited for the summary.
    pub waited_for: bool,
    /// The number of messages that were given to the summarizer.
    pub messages: usize,
    /// The tokens that the summary replaces: those of the previous summary and the messages.
    pub replaced_tokens: u64,
    /// The cost of the summary.
    pub cost: SummaryCost,
    /// The summary's size in tokens, if it was accepted.
    pub tokens: Option<u32>,
    /// The outcome.
    pub outcome: SummaryOutcome,
}

/// The outcome of an attempt to make a summary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SummaryOutcome {
    /// The summary is stored, and part of the next prompts.
    Stored,
    /// The summary is part of the prompt of the call for which it was made, and is stored with that call's exchange.
    Made,
    /// Another summary that covers at least as much was stored first. It is kept instead of this one.
    Superseded,
    /// A summary of the exchanges before [`to`](SummaryReport::to) is stored. After that, the summarizer failed, or its
    /// answer was not accepted. The rest is retried later.
    Part(Arc<SummaryError>),
    /// The summary could not be made, or was not accepted. The window is trimmed without it. It is retried later.
    Rejected(Arc<SummaryError>),
    /// The summary could not be stored, or the exchanges that it was to cover could not be read.
    Failed(Arc<StoreError>),
}

impl SummaryOutcome {
    /// Returns a short constant name for metrics and spans.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Made => "made",
            Self::Superseded => "superseded",
            Self::Part(_) => "part",
            Self::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => "no_gain",
            Self::Rejected(_) => "rejected",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns a short constant name of the error, if there was one.
    #[must_use]
    pub fn error_kind(&self) -> Option<&'static str> {
        match self {
            // There was too little to summarize, which is not a failure.
            Self::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => None,
            Self::Part(error) | Self::Rejected(error) => Some(error.kind()),
            Self::Failed(error) => Some(error.kind()),
            Self::Stored | Self::Made | Self::Superseded => None,
        }
    }
}

impl SummaryReport {
    /// Returns `true` if the conversation has a newer summary than before: this one, or another one that superseded it.
    #[must_use]
    pub const fn is_summarized(&self) -> bool {
        matches!(
            self.outcome,
            SummaryOutcome::Stored | SummaryOutcome::Made | SummaryOutcome::Part(_) | SummaryOutcome::Superseded
        )
    }
}

/// The cost of a summary, accepted or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummaryCost {
    /// The number of calls of the summarizer, including those that failed or did not end.
    pub calls: u32,
    /// The input tokens of the successful calls, as the provider reported them. If it reported none, they are counted,
    /// without the summarizer's own prompt.
    pub input_tokens: u64,
    /// The output tokens of the successful calls, as the provider reported them, or else as counted.
    pub output_tokens: u64,
}

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
    /// The position of the first exchange to summarize: the first one that the previous summary does not cover.
    pub from: Seq,
    /// The position after the last exchange that the summary covers. If there is no summary, the position after the
    /// last exchange to summarize.
    pub to: Seq,
    /// True if a call waited for the summary.
    pub waited_for: bool,
    /// The number of messages that were given to the summarizer.
    pub messages: usize,
    /// The number of tokens of the previous summary and the messages, which the summary replaces.
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
    /// The summary is stored. Later prompts contain it.
    Stored,
    /// The summary is in the prompt of the call that waited for it. It will be stored with that call's exchange.
    Made,
    /// Another summary was stored first that covers at least as many exchanges. This summary is discarded.
    Superseded,
    /// A part of the exchanges was summarized, and this summary is stored: it covers the exchanges before
    /// [`to`](SummaryReport::to). The next call of the summarizer failed, or its answer was refused. A later turn
    /// retries the rest.
    Part(Arc<SummaryError>),
    /// No summary was made, or its text was refused. The window is trimmed without it. A later turn retries it.
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
    /// Returns `true` if there is a newer summary than before the attempt: the one that was made, a part of it, or
    /// another one that superseded it.
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
    /// The number of calls of the summarizer, including calls that failed or were dropped after the timeout.
    pub calls: u32,
    /// The input tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the previous summary and the messages are counted; the summarizer's instructions are not.
    pub input_tokens: u64,
    /// The output tokens of the successful calls, as the provider reported them. For a call without a report, the
    /// tokens of the answer are counted.
    pub output_tokens: u64,
}

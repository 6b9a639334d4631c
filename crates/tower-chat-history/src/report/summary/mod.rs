//! What became of a summary.

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, Seq, StoreError};

mod cost;
mod error;

pub use self::{cost::SummaryCost, error::SummaryError};

/// What became of a summary that was tried. It holds sizes, no text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryReport {
    /// The conversation.
    pub conversation: ConversationId,
    /// The first exchange that it was to cover, beyond what the summary before covers.
    pub from: Seq,
    /// The first exchange that it does not cover, or was not to cover.
    pub to: Seq,
    /// True if a call waited for it.
    pub waited_for: bool,
    /// How many messages were given to the summarizer.
    pub messages: usize,
    /// The size of what it is to stand for, in tokens: the summary before, and those messages.
    pub replaced_tokens: u64,
    /// What it cost.
    pub cost: SummaryCost,
    /// The summary's size in tokens, if it was accepted.
    pub tokens: Option<u32>,
    /// What became of it.
    pub outcome: SummaryOutcome,
}

/// What became of a summary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SummaryOutcome {
    /// It is stored, and stands in the next prompts.
    Stored,
    /// It stands in the prompt of the call that it was made for, and is stored with that call's exchange.
    Made,
    /// Another one that covers as much or more was stored first, and stays.
    Superseded,
    /// A part of it is stored: up to [`to`](SummaryReport::to). Then the summarizer failed, or it was not sound; the rest is
    /// tried again later.
    Part(Arc<SummaryError>),
    /// It was not sound, or could not be made. The window is trimmed without it; it is tried again later.
    Rejected(Arc<SummaryError>),
    /// It was made and could not be stored, or what it was to cover could not be read.
    Failed(Arc<StoreError>),
}

impl SummaryOutcome {
    /// A short constant name of it, for metrics and spans.
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

    /// A short constant name of what failed, if something did.
    #[must_use]
    pub fn error_kind(&self) -> Option<&'static str> {
        match self {
            // There was little to summarize, which is nobody's fault.
            Self::Rejected(error) if matches!(**error, SummaryError::NoGain { .. }) => None,
            Self::Part(error) | Self::Rejected(error) => Some(error.kind()),
            Self::Failed(error) => Some(error.kind()),
            Self::Stored | Self::Made | Self::Superseded => None,
        }
    }
}

impl SummaryReport {
    /// Returns whether there is another summary now than before, by this one or another.
    #[must_use]
    pub const fn is_summarized(&self) -> bool {
        matches!(
            self.outcome,
            SummaryOutcome::Stored | SummaryOutcome::Made | SummaryOutcome::Part(_) | SummaryOutcome::Superseded
        )
    }
}

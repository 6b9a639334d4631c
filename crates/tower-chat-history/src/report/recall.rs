//! The report of a search for messages to show again.

use std::{sync::Arc, time::Duration};

use crate::recall::RecallError;

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

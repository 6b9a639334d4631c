//! What summaries cost.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tower_chat_history::summary::SummaryReport;

/// The price of a token that a summarizer writes, in cold tokens of input.
pub(crate) const OUTPUT_PRICE: u64 = 4;

/// The summaries of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spent {
    /// Those that stand in later prompts.
    pub(crate) stored: usize,
    /// Those that were tried in vain.
    pub(crate) not_stored: usize,
    /// The summarizer's calls, for all of them.
    pub(crate) calls: u64,
    /// What it was given, with the prompt around it.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Spent {
    /// The price in cold tokens of input: nothing that a summarizer is given is warm.
    pub(crate) const fn cost(&self) -> u64 {
        self.input_tokens + OUTPUT_PRICE * self.output_tokens
    }
}

/// Adds up reports, from the hook. Clones share the sum.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Spent>>);

impl Ledger {
    pub(crate) fn add(&self, report: &SummaryReport) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = report.is_summarized();
        spent.stored += usize::from(stored);
        spent.not_stored += usize::from(!stored);
        spent.calls += u64::from(report.cost.calls);
        spent.input_tokens += report.cost.input_tokens;
        spent.output_tokens += report.cost.output_tokens;
    }

    pub(crate) fn spent(&self) -> Spent {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

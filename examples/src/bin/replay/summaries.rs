//! The cost of summaries.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tower_chat_history::summary::SummaryReport;

/// The price of an output token of the summarizer, in uncached input tokens.
pub(crate) const OUTPUT_PRICE: u64 = 4;

/// The summaries of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spent {
    /// Summaries that later prompts contain.
    pub(crate) stored: usize,
    /// Attempts that produced no stored summary.
    pub(crate) not_stored: usize,
    /// The summarizer's calls, for stored and failed summaries.
    pub(crate) calls: u64,
    /// The summarizer's input, including its instructions.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Spent {
    /// Returns the price in uncached input tokens. The summarizer's input is never cached.
    pub(crate) const fn cost(&self) -> u64 {
        self.input_tokens + OUTPUT_PRICE * self.output_tokens
    }
}

/// Adds up the reports of the summary hook. Clones share the sum.
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

//! Notes for the user about trimming and summaries, collected by hooks.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tower_chat_history::{
    TurnReport,
    report::TurnOutcome,
    summary::{SummaryOutcome, SummaryReport},
};

/// The notes that have not been printed. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Pending>>);

#[derive(Default)]
struct Pending {
    lines: Vec<String>,
    outcome: Option<TurnOutcome>,
}

impl Notes {
    pub(crate) fn turn(&self, report: &TurnReport) {
        let mut pending = self.lock();
        if let Some(tokens) = report.tokens.filter(|tokens| tokens.evicted_messages > 0) {
            let (messages, of) = (tokens.evicted_messages, tokens.evicted_tokens);
            pending.lines.push(format!("left out: {messages} messages ({of} tokens)"));
        }
        pending.outcome = Some(report.outcome.clone());
    }

    pub(crate) fn summary(&self, report: &SummaryReport) {
        let line = match &report.outcome {
            SummaryOutcome::Stored | SummaryOutcome::Superseded => {
                let tokens = report.tokens.unwrap_or_default();
                format!("summarized: all messages before exchange {}, in {tokens} tokens", report.to)
            }
            SummaryOutcome::Part(error) => {
                format!("partly summarized: only messages before exchange {}: {error}", report.to)
            }
            SummaryOutcome::Rejected(error) => format!("not summarized: {error}"),
            SummaryOutcome::Failed(error) => format!("not summarized: {error}"),
            _ => return,
        };
        self.lock().lines.push(line);
    }

    /// Returns the lines since the last call.
    pub(crate) fn take_lines(&self) -> Vec<String> {
        mem::take(&mut self.lock().lines)
    }

    /// Returns the outcome of the last turn.
    pub(crate) fn take_outcome(&self) -> Option<TurnOutcome> {
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

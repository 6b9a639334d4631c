//! What happened besides the replies, from the hooks.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tower_chat_history::{
    Outcome, TurnReport,
    summary::{SummaryOutcome, SummaryReport},
};

/// What is to be told, until it is. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Untold>>);

#[derive(Default)]
struct Untold {
    lines: Vec<String>,
    outcome: Option<Outcome>,
}

impl Notes {
    pub(crate) fn turn(&self, report: &TurnReport) {
        let mut untold = self.lock();
        if let Some(tokens) = report.tokens.filter(|tokens| tokens.evicted_messages > 0) {
            let (messages, of) = (tokens.evicted_messages, tokens.evicted_tokens);
            untold.lines.push(format!("left out: {messages} messages, {of} tokens"));
        }
        untold.outcome = Some(report.outcome.clone());
    }

    pub(crate) fn summary(&self, report: &SummaryReport) {
        let line = match &report.outcome {
            SummaryOutcome::Stored | SummaryOutcome::Superseded => {
                format!(
                    "summarized: all before exchange {}, in {} tokens",
                    report.to,
                    report.tokens.unwrap_or_default()
                )
            }
            SummaryOutcome::Part(error) => format!("summarized in part, before exchange {}: {error}", report.to),
            SummaryOutcome::Rejected(error) => format!("not summarized: {error}"),
            SummaryOutcome::Failed(error) => format!("not summarized: {error}"),
            _ => return,
        };
        self.lock().lines.push(line);
    }

    /// The lines since the last time.
    pub(crate) fn take_lines(&self) -> Vec<String> {
        mem::take(&mut self.lock().lines)
    }

    /// What became of the last turn.
    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, Untold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Options for the context window, for summaries and for recall, and hooks that note what happens to the history.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use tower_chat_history::{
    ContextBudget, HistoryOptions, Message, Role, Summaries, TurnReport,
    recall::{LogRecall, RecallOptions},
    report::TurnOutcome,
    summary::{Summarizer, SummaryOutcome, SummaryReport},
};
use tower_chat_history_test::{Reply, rules::remembered_answer};

/// The smallest and the largest limit of a summary, in tokens. Between them, the limit is an eighth of the context
/// window.
const MIN_SUMMARY: u32 = 20;
const MAX_SUMMARY: u32 = 400;

/// The largest limit of a reply, in tokens.
const MAX_REPLY: u32 = 1_024;

/// The longest time of a search for earlier messages. One user waits here, and would miss a message more than a second.
const MAX_SEARCH: Duration = Duration::from_secs(30);

/// Limits of the history that the model receives.
pub(crate) struct Memory {
    /// The context window in tokens; by default the model's.
    pub(crate) context: Option<u32>,
    /// Summarizes messages that leave the window. Without one they are just left out.
    pub(crate) summarizer: Option<Arc<dyn Summarizer>>,
    /// Finds earlier messages that a question needs. Without one, the model receives only the window.
    pub(crate) recall: Option<LogRecall>,
}

impl Memory {
    /// Returns the largest reply in tokens: a quarter of the context window.
    pub(crate) fn max_reply(&self) -> u32 {
        self.context.map_or(MAX_REPLY, |context| (context / 4).clamp(1, MAX_REPLY))
    }

    /// Returns the options, with hooks that collect notes. Hooks work with every integration.
    pub(crate) fn options(self, notes: &Notes) -> HistoryOptions {
        let of_turns = notes.clone();
        let mut options = HistoryOptions::new().on_turn(move |report| of_turns.turn(report));
        if let Some(tokens) = self.context {
            options = options.context(ContextBudget::tokens(tokens));
        }

        if let Some(recall) = self.recall {
            let recall = RecallOptions::new(recall).timeout(MAX_SEARCH);
            // The default share of a small window has no room for a message.
            let is_small = self.context.is_some_and(|tokens| tokens < 1_000);
            options = options.recall(if is_small { recall.percent(40) } else { recall });
        }

        let Some(summarizer) = self.summarizer else { return options };
        let tokens = self.context.map_or(MAX_SUMMARY, |context| (context / 8).clamp(MIN_SUMMARY, MAX_SUMMARY));
        let summaries = Summaries::new(summarizer).max_tokens(tokens).least_room(tokens);
        let of_summaries = notes.clone();
        options.summaries(summaries.on_summary(move |report| of_summaries.summary(report)))
    }
}

/// The notes that have not been printed. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Unprinted>>);

#[derive(Default)]
struct Unprinted {
    lines: Vec<String>,
    outcome: Option<TurnOutcome>,
}

impl Notes {
    pub(crate) fn turn(&self, report: &TurnReport) {
        let mut notes = self.lock();
        if let Some(tokens) = report.tokens.filter(|tokens| tokens.evicted_messages > 0) {
            let line = format!("left out: {} messages ({} tokens)", tokens.evicted_messages, tokens.evicted_tokens);
            notes.lines.push(line);
        }
        notes.outcome = Some(report.outcome.clone());
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

    fn lock(&self) -> MutexGuard<'_, Unprinted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the mock model's reply. Its rules look for facts only in user messages, so summaries are converted to user
/// messages, and recalled messages to those that they show.
pub(crate) fn mock(messages: &[Message]) -> Reply {
    let messages: Vec<Message> = messages.iter().flat_map(understood).collect();
    Reply::text(remembered_answer(&messages))
}

/// Returns what the mock model's rules understand of a message.
fn understood(message: &Message) -> Vec<Message> {
    let text = message.text();
    // Where the summary stands, and in which role, depends on the API.
    if text.contains("<conversation_summary") {
        return vec![Message::user(text)];
    }

    if *message.role() == Role::User && text.contains("<earlier_messages") {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<RecalledLine>(line).ok());
        let shown = lines.flat_map(|line| line.messages).filter(|shown| shown.role == "user");
        return shown.map(|shown| Message::user(shown.text)).collect();
    }
    vec![message.clone()]
}

/// A line of recalled messages.
#[derive(Deserialize)]
struct RecalledLine {
    messages: Vec<RecalledMessage>,
}

#[derive(Deserialize)]
struct RecalledMessage {
    role: String,
    #[serde(default)]
    text: String,
}

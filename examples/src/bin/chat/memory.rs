//! What the model is told of the conversation's beginning.

use std::{borrow::Cow, sync::Arc};

use tower_chat_history::{ContextBudget, HistoryOptions, Message, Role, Summaries, summary::Summarizer};
use tower_chat_history_test::{Reply, rules::remembered_answer};

use super::notes::Notes;

/// The least and the most tokens of a summary; in between it is an eighth of the context window.
const LEAST_SUMMARY: u32 = 20;
const MOST_SUMMARY: u32 = 400;

/// How much of a conversation the model is shown.
pub(crate) struct Memory {
    /// The context window in tokens, else the model's.
    pub(crate) context: Option<u32>,
    /// What summarizes the rest, if it is not just left out.
    pub(crate) summarizer: Option<Arc<dyn Summarizer>>,
}

impl Memory {
    /// The options, with hooks that take notes: they work at every door.
    pub(crate) fn options(self, notes: &Notes) -> HistoryOptions {
        let of_turns = notes.clone();
        let mut options = HistoryOptions::new().on_turn(move |report| of_turns.turn(report));
        if let Some(tokens) = self.context {
            options = options.budget(ContextBudget::tokens(tokens));
        }
        let Some(summarizer) = self.summarizer else { return options };
        let tokens = self.context.map_or(MOST_SUMMARY, |context| (context / 8).clamp(LEAST_SUMMARY, MOST_SUMMARY));
        let of_summaries = notes.clone();
        let summaries = Summaries::new(summarizer).max_tokens(tokens).least_room(tokens);
        options.summaries(summaries.on_summary(move |report| of_summaries.summary(report)))
    }
}

/// The mock model. Its rules look for facts in what users say only, so it is told a summary as that.
pub(crate) fn mock(messages: &[Message]) -> Reply {
    let told: Vec<Message> = messages.iter().map(|message| as_told(message).into_owned()).collect();
    Reply::text(remembered_answer(&told))
}

fn as_told(message: &Message) -> Cow<'_, Message> {
    let text = message.text();
    if *message.role() == Role::System && text.contains("<conversation_summary") {
        return Cow::Owned(Message::user(text));
    }
    Cow::Borrowed(message)
}

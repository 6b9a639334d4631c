//! Phrases of small talk.

use tower_chat_history_recall::{DecodeError, LogIndex, Query, Search};

use crate::conversation::Conversation;

/// Prints the phrases that open the gate of a conversation, and their number.
pub(crate) fn count(
    search: &Search,
    index: &LogIndex,
    conversation: &Conversation,
    phrases: &str,
) -> Result<(), DecodeError> {
    let mut open = Vec::new();
    for phrase in phrases.lines() {
        if search.run(index, &conversation.log, &Query::new(index.analyzer(), phrase))?.gate.open {
            open.push(phrase);
        }
    }
    println!("{}: {} of {} open the gate: {open:?}", conversation.id, open.len(), phrases.lines().count());
    Ok(())
}

//! Phrases of small talk.

use tower_chat_history::recall::{LogTerms, Search};

use crate::conversation::Conversation;

/// Prints the phrases that open the gate of a conversation, and their number.
pub(crate) fn count(search: &Search, terms: &LogTerms, conversation: &Conversation, phrases: &str) {
    let mut open = Vec::new();
    for phrase in phrases.lines() {
        if search.run(terms, phrase).gate.open {
            open.push(phrase);
        }
    }
    println!("{}: {} of {} open the gate: {open:?}", conversation.id, open.len(), phrases.lines().count());
}

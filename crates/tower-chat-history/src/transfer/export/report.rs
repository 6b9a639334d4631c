//! The reports of exports.

use serde::Serialize;
use tower_chat_history_core::{ConversationId, FailedConversation};

use crate::transfer::line::Cut;

/// The largest number of conversations that a report names.
const MAX_NAMED: usize = 1_000;

/// The numbers of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExportReport {
    /// The conversations, including those that are not whole, but not damaged ones.
    pub conversations: u64,
    /// The exchanges.
    pub exchanges: u64,
    /// The compactions.
    pub compactions: u64,
    /// The size of the lines, in bytes.
    pub bytes: u64,
    /// The number of conversations that are missing as a whole, because the store cannot read their entries.
    pub damaged: u64,
    /// The number of keys in the store that are no ids of conversations. Another program wrote them.
    pub foreign_keys: u64,
    /// The number of conversations of which a part is missing, including those that are missing as a whole.
    pub not_whole: u64,
    /// The first 1,000 reasons. A conversation can have several, one after the other. Conversations are named in the
    /// order of the listing, page by page. Of each page, those that are missing as a whole come first.
    pub named: Vec<NotWhole>,
    /// The last conversation that is not whole.
    #[serde(skip)]
    last: Option<ConversationId>,
}

/// A conversation of which a part is missing in an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotWhole {
    /// The conversation.
    pub id: ConversationId,
    /// The reason, for people.
    pub reason: String,
}

impl ExportReport {
    pub(super) fn cut(&mut self, id: &ConversationId, cut: Cut, detail: &str) {
        self.missing(id, format!("{cut}{detail}"));
    }

    /// Counts and names a conversation whose entry cannot be read.
    pub(super) fn damaged(&mut self, conversation: &FailedConversation) {
        self.damaged += 1;
        self.missing(&conversation.id, format!("the conversation is missing: {}", conversation.error));
    }

    pub(super) fn missing(&mut self, id: &ConversationId, reason: String) {
        // A conversation can lack several parts, one after the other.
        if self.last.as_ref() != Some(id) {
            self.not_whole += 1;
            self.last = Some(id.clone());
        }
        if self.named.len() < MAX_NAMED {
            self.named.push(NotWhole { id: id.clone(), reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conversation_counts_once_however_many_are_named() {
        let mut report = ExportReport::default();
        for number in 0..MAX_NAMED + 100 {
            let id = ConversationId::new([number.to_string()]).unwrap();
            for _ in 0..3 {
                report.missing(&id, "reason".to_owned());
            }
        }
        assert_eq!((report.not_whole, report.named.len()), (MAX_NAMED as u64 + 100, MAX_NAMED));
    }
}

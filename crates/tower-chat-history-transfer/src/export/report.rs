//! The reports of exports.

use serde::Serialize;
use tower_chat_history_core::ConversationId;

use crate::line::Cut;

/// The largest number of conversations that a report names.
const MAX_NAMED: usize = 1_000;

/// The numbers of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExportReport {
    /// The conversations, including those that are not whole.
    pub conversations: u64,
    /// The exchanges.
    pub exchanges: u64,
    /// The compactions.
    pub compactions: u64,
    /// The attachments.
    pub attachments: u64,
    /// The size of the lines, in bytes.
    pub bytes: u64,
    /// The number of conversations of which a part is missing.
    pub not_whole: u64,
    /// The first 1,000 of them.
    pub named: Vec<NotWhole>,
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

    pub(super) fn missing(&mut self, id: &ConversationId, reason: String) {
        // A conversation can lack several parts, one after the other.
        if self.named.last().is_none_or(|last| last.id != *id) {
            self.not_whole += 1;
        }
        if self.named.len() < MAX_NAMED {
            self.named.push(NotWhole { id: id.clone(), reason });
        }
    }
}

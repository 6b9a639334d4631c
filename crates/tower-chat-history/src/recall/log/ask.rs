//! The request of a search, and its answers.

use std::fmt;

use tower_chat_history_core::{Citation, ConversationId, Message, Recalled, Revision, Seq};

use crate::recall::{embedder::EmbedError, gate::Decision};

/// The request to search a conversation for the input of a call.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The conversation.
    pub conversation: &'a ConversationId,
    /// The log's revision, as it was loaded, or `None` if there is no such conversation yet.
    pub revision: Option<Revision>,
    /// The start of the window that is sent. Only the log before it is searched. Other conversations are searched
    /// whole.
    pub before: Seq,
    /// The input of the call. Its user messages are searched for.
    pub input: &'a [Message],
    /// The messages that are shown already, by recalled messages within the window. They are not shown again.
    pub already: &'a [Citation],
    /// The most that the message with the result may cost, by `cost`.
    pub allowance: u64,
    /// The cost of a message, such as its tokens.
    pub cost: &'a (dyn Fn(&Message) -> u64 + Sync),
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("revision", &self.revision)
            .field("before", &self.before)
            .field("input", &self.input.len())
            .field("already", &self.already.len())
            .field("allowance", &self.allowance)
            .finish_non_exhaustive()
    }
}

/// The answer of a search.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SearchAnswer {
    /// There is nothing to search for or in: the input has no words, or only words of small talk, no exchange is before
    /// the window and no other conversation is searched, or the allowance is 0. Nothing was read.
    Nothing,
    /// The incarnation of the revision has ended, or there is no such conversation.
    Gone,
    /// The log was searched, or those of other conversations.
    Found(Findings),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Findings {
    /// The messages to show, or `None` if there are none: the gate is shut, or nothing fits.
    pub recalled: Option<Recalled>,
    /// The cost of the recalled message. It is at most the allowance.
    pub cost: u64,
    /// The number of exchanges of which messages are shown.
    pub exchanges: u64,
    /// The best score by words in one log, or 0 if no message has a word of the input.
    pub best: f64,
    /// The decision of the gate.
    pub gate: Decision,
    /// The number of conversations that were searched. The conversation itself counts if it has exchanges before the
    /// window.
    pub conversations: u32,
    /// The number of passages that were searched.
    pub documents: u32,
    /// The number of exchanges of the conversation itself that were not searched, because they are too
    /// [old](crate::recall::LogSearch::messages).
    pub unsearched: u64,
    /// The number of exchanges of the conversation itself that were searched by words only, because their vectors are
    /// not [made](crate::recall::LogSearch::prepare) yet.
    pub unprepared: u64,
    /// The part that vectors had.
    pub meaning: Meaning,
    /// The part that other conversations had.
    pub others: Others,
}

/// The part that other conversations had in a search, if it [covers](crate::recall::SearchScope) some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Others {
    /// The number of conversations that were searched.
    pub searched: u32,
    /// The number of conversations that could not be searched, or of which no messages could be read: the store failed,
    /// the conversation is damaged, or the [time](crate::recall::LogSearch::time_for_others) was over. It is at least 1 if the
    /// conversations could not be listed.
    pub failed: u32,
    /// The number of their exchanges that were not searched, because they are too old.
    pub unsearched: u64,
    /// `true` if there were more conversations than are [listed](crate::recall::SearchScope::walk), so that newer ones may have
    /// been left out.
    pub is_incomplete: bool,
}

/// The part that vectors had in a search.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Meaning {
    /// There is no [embedder](crate::recall::LogSearch::by_meaning).
    Unused,
    /// No vectors are made yet. The result is by words.
    Missing,
    /// The input was compared with this many vectors.
    Compared {
        /// The number of vectors.
        vectors: u32,
    },
    /// The input has no vector that can be used. The result is by words.
    Failed(EmbedError),
}

//! Explanations: the prompt of any stored reply, message by message, with the reasons for what was left out.
//!
//! Every reply is stored with its [provenance](crate::store::Provenance): the positions under which its prompt was made,
//! and a digest of it. [`Engine::explain`](crate::Engine::explain) makes the prompt again from the log. If its digest is
//! the stored one, it is the prompt that was sent, byte for byte (apart from marks for a provider's cache in the log,
//! which a digest does not have, but which are sent as they are stored).
//!
//! # Rows
//!
//! Each message of the window and of the input is one [`Row`], in order, with its size in tokens and its JSON:
//!
//! | row | meaning |
//! |---|---|
//! | [`Fate::Sent`] | It was sent as it is stored. Of an exchange in another dialect, the translation is the message. |
//! | [`Fate::InPart`] | A part of it was sent: reasoning or results were not valid in the prompt, or its round was left out. Or it was sent as its [reader](crate::compat) accepts it. |
//! | [`Fate::Cleared`] | A placeholder was sent in place of old results. |
//! | [`Fate::LeftOut`] | Nothing of it was sent. [`Why`] has the reasons. |
//! | [`Subject::Before`] | All exchanges before the window, which are not read, and how far the summary covers them. |
//! | [`Subject::Summary`], [`Subject::StoodIn`] | Messages that are not in the log. |
//! | [`Subject::Recalled`] | Messages that were shown again. The exchange has the [citations](crate::store::Recalled::citations). |
//! | [`Subject::Meanwhile`] | Exchanges that other calls stored while the reply was made. |
//!
//! # What cannot be known
//!
//! The log keeps everything that was said, but not everything that was sent. [`NotKnown`] is the reason:
//!
//! - A profile keeps the summaries of its newest compaction and of the one before that.
//! - [`Truncate`](crate::store::Truncate), [`Prune`](crate::store::Prune) and retention remove exchanges. An
//!   [erasing](crate::store::Derived::Erase) prune also removes provenances, and recalled messages that quote what it
//!   removed. A [fork](crate::store::Fork) does not copy recalled messages that cite another conversation.
//! - If [other messages](crate::CallOptions::store_instead) were stored than sent, the input is not known. If a
//!   [`Trimmer`](crate::budget::Trimmer) chose the turns, its choice is not known.
//! - If the reader accepted less than the log has, what it accepted must still be known: by the
//!   [table of readers](crate::HistoryOptions::readers), or by what the conversation has learned. If the instructions
//!   of the head were sent as a message of the user, that message is not known, as the head is not.
//! - The options must be those with which the prompt was made: the profile, the format of summaries, the clearing of
//!   results, and the token counter if results are cleared.

use tower_chat_history_core::{Message, Recorded};

#[doc(inline)]
pub use crate::context::plan::explain::{Fate, NotKnown, Row, SizedMessage, Subject, Why};

/// The prompt of a stored reply. [`Engine::explain`](crate::Engine::explain) returns it.
///
/// `Debug` shows positions and sizes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The exchange, with its [provenance](crate::Exchange::provenance) and its [usage](crate::Exchange::usage).
    pub exchange: Recorded,
    /// The treatment of each message, in the order of the log, then of the input. The rows with
    /// [`sent`](Row::sent) messages are the prompt after the head.
    pub prompt: Result<Vec<Row>, NotKnown>,
}

impl Explanation {
    /// Returns the messages that were sent after the head, in order. There are none if the prompt is not known.
    pub fn sent(&self) -> impl Iterator<Item = &Message> {
        let rows = self.prompt.as_deref().unwrap_or_default();
        rows.iter().filter_map(|row| Some(&row.sent.as_ref()?.message))
    }
}

//! Messages of the log that a call showed again.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    conversation_id::ConversationId,
    memory::{block, shared},
    message::Message,
    seq::Seq,
};

/// Earlier messages that were shown to the model again, as one message before the input of a call. They are of the same
/// log, or of [other conversations](Citation::conversation).
///
/// It is stored with the [exchange](crate::Exchange::recalled), so that later prompts repeat it byte for byte. The
/// messages of the log do not contain it.
///
/// `Debug` shows positions and sizes.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Recalled {
    /// The user message that was sent.
    pub message: Message,
    /// The messages that it shows, in the order of their logs. Those of the same log are before the exchange.
    pub citations: Vec<Citation>,
    /// The size of the message in tokens, if it was counted. The counter is named in the exchange's
    /// [counts](crate::Exchange::tokens).
    pub tokens: Option<u32>,
}

impl Recalled {
    /// Creates the user message with this text, which shows the cited messages. Its tokens are not counted yet.
    #[must_use]
    pub fn new(text: impl AsRef<str>, citations: Vec<Citation>) -> Self {
        Self { message: Message::user(text), citations, tokens: None }
    }

    /// Returns `true` if it cites a message of another conversation.
    #[must_use]
    pub fn cites_others(&self) -> bool {
        self.citations.iter().any(|citation| citation.conversation.is_some())
    }

    /// Returns the number that a store keeps next to it: the first position of the same log that is cited, or -1 if
    /// [another conversation](Self::cites_others) is cited. Returns `None` if nothing is cited.
    ///
    /// When a log is pruned with [`Derived::Erase`](crate::Derived::Erase), the store removes this value if the number
    /// is less than the log's first position after the prune. So what cites another conversation is always removed. A
    /// [fork](crate::Fork) does not copy it in the same cases.
    #[must_use]
    pub fn least_cited(&self) -> Option<i64> {
        if self.cites_others() {
            return Some(-1);
        }
        let first = self.citations.iter().map(|citation| citation.seq.get()).min()?;
        Some(i64::try_from(first).unwrap_or(i64::MAX))
    }

    /// Returns an estimate of the memory of its parts, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let cited = self.citations.iter().filter_map(|citation| citation.conversation.as_ref());
        let ids: usize = cited.map(|id| shared(id.as_str().len())).sum();
        self.message.memory() + block(self.citations.capacity().saturating_mul(size_of::<Citation>())) + ids
    }
}

impl std::fmt::Debug for Recalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recalled")
            .field("citations", &self.citations)
            .field("bytes", &self.message.bytes())
            .finish_non_exhaustive()
    }
}

/// Messages of one exchange, next to each other.
///
/// It is serialized as a list: the position, the start and the end of the messages, and then, if it is of another
/// conversation, the id of that conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "StoredCitation", into = "StoredCitation")]
#[non_exhaustive]
pub struct Citation {
    /// The conversation, or `None` for the conversation that cites.
    pub conversation: Option<ConversationId>,
    /// The position of the exchange.
    pub seq: Seq,
    /// The messages, by their indexes in the exchange.
    pub messages: Range<u32>,
}

impl Citation {
    /// Creates the citation of these messages of an exchange of the same conversation.
    #[must_use]
    pub const fn new(seq: Seq, messages: Range<u32>) -> Self {
        Self { conversation: None, seq, messages }
    }

    /// Sets the conversation of the exchange, which must be another one than the one that cites.
    #[must_use]
    pub fn of(mut self, conversation: ConversationId) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// Returns `true` if both cite the same exchange.
    #[must_use]
    pub fn same_exchange(&self, other: &Self) -> bool {
        (&self.conversation, self.seq) == (&other.conversation, other.seq)
    }
}

/// A citation as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredCitation {
    Same(Seq, u32, u32),
    Other(Seq, u32, u32, ConversationId),
}

impl From<StoredCitation> for Citation {
    fn from(stored: StoredCitation) -> Self {
        match stored {
            StoredCitation::Same(seq, start, end) => Self::new(seq, start..end),
            StoredCitation::Other(seq, start, end, conversation) => Self::new(seq, start..end).of(conversation),
        }
    }
}

impl From<Citation> for StoredCitation {
    fn from(Citation { conversation, seq, messages: Range { start, end } }: Citation) -> Self {
        match conversation {
            None => Self::Same(seq, start, end),
            Some(conversation) => Self::Other(seq, start, end, conversation),
        }
    }
}

//! Messages of the log that a call showed again.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{memory::block, message::Message, seq::Seq};

/// Earlier messages of the log that were shown to the model again, as one message before the input of a call.
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
    /// The messages that it shows, in the order of the log. All of them are before the exchange.
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

    /// Returns the first position that is cited, or `None` if there is none. If that position is before the beginning
    /// of a log that is pruned with [`Derived::Erase`](crate::Derived::Erase), the store removes this value.
    #[must_use]
    pub fn first_cited(&self) -> Option<Seq> {
        self.citations.iter().map(|citation| citation.seq).min()
    }

    /// Returns this value for a copy of the log whose positions are lower by `first`, or `None` if a cited position
    /// would not exist there.
    pub(crate) fn moved_back(mut self, first: Seq) -> Option<Self> {
        for Citation { seq, .. } in &mut self.citations {
            *seq = Seq::new(seq.get().checked_sub(first.get())?);
        }
        Some(self)
    }

    /// Returns an estimate of the memory of its parts, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.message.memory() + block(self.citations.capacity().saturating_mul(size_of::<Citation>()))
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
/// It is serialized as a list of three numbers: the position, and the start and end of the messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "(Seq, u32, u32)", into = "(Seq, u32, u32)")]
pub struct Citation {
    /// The position of the exchange.
    pub seq: Seq,
    /// The messages, by their indexes in the exchange.
    pub messages: Range<u32>,
}

impl Citation {
    /// Creates the citation of these messages of an exchange.
    #[must_use]
    pub const fn new(seq: Seq, messages: Range<u32>) -> Self {
        Self { seq, messages }
    }
}

impl From<(Seq, u32, u32)> for Citation {
    fn from((seq, start, end): (Seq, u32, u32)) -> Self {
        Self::new(seq, start..end)
    }
}

impl From<Citation> for (Seq, u32, u32) {
    fn from(Citation { seq, messages }: Citation) -> Self {
        (seq, messages.start, messages.end)
    }
}

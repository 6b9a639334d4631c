//! The rows of an explained prompt.

use tower_chat_history_core::{Message, Seq};

/// One message of the log, of the input, or of the prompt alone, and what became of it in a prompt. Exchanges that were
/// not read are one row together.
///
/// `Debug` shows positions and sizes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The subject of the row.
    pub subject: Subject,
    /// The treatment of it.
    pub fate: Fate,
    /// The message as it is in the log, in the dialect of the prompt. `None` if it is not in the log, and for exchanges
    /// that were not read.
    pub stored: Option<SizedMessage>,
    /// The message as it was sent. `None` if it was left out.
    pub sent: Option<SizedMessage>,
}

/// The subject of a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// All exchanges before the window. They were not read.
    Before {
        /// The position of the first one that is stored.
        from: Seq,
        /// The position after the last one.
        to: Seq,
        /// The end of those that the summary in the prompt covers. `None` if there was no summary.
        covers_to: Option<Seq>,
    },
    /// The summary.
    Summary {
        /// The end of the exchanges that it covers.
        covers_to: Seq,
    },
    /// A message of the log.
    Logged {
        /// The position of its exchange.
        seq: Seq,
        /// Its index in the exchange. If the exchange is in another dialect, it is the index in its translation.
        index: usize,
        /// True if its exchange is in another dialect, so that a translation is sent.
        translated: bool,
    },
    /// The earlier messages that were shown again with an exchange.
    Recalled {
        /// The position of the exchange. It can be the exchange whose prompt is explained.
        seq: Seq,
    },
    /// A constant message that the log does not have: the result of an abandoned call, a reply to results without one,
    /// or the beginning that a provider requires.
    StoodIn {
        /// The position of the exchange that it was sent for.
        seq: Seq,
    },
    /// All exchanges that were stored after the prompt was made and before its reply was.
    Meanwhile {
        /// The position of the first one.
        from: Seq,
        /// The position after the last one.
        to: Seq,
    },
    /// A message of the input.
    Input {
        /// Its index in the exchange.
        index: usize,
    },
}

/// The treatment of a message in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was sent as it is.
    Sent,
    /// A part of it was sent: for example, without reasoning or without results.
    InPart,
    /// It was sent with a placeholder in place of old results.
    Cleared,
    /// It was left out.
    LeftOut(Why),
}

/// The reason why a message was left out of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is before the window.
    BeforeWindow,
    /// It was stored after the prompt was made.
    Later,
    /// Its round of calls and results was left out to make the prompt smaller.
    Round,
    /// It has nothing but reasoning that is not valid in the prompt.
    Reasoning,
    /// It was recalled for an earlier call, and was left out to make the prompt smaller.
    Recalled,
    /// A message that the provider made stands for everything before it.
    StoodFor,
    /// Its exchange gave way to another attempt to answer the same calls.
    OtherAttempt,
    /// It says nothing.
    Blank,
    /// It has results of calls that are not open: they are late, repeated, or answer no call.
    NoOpenCall,
    /// It belongs to a message that is missing: a call of the provider without its result, a result without its call,
    /// or an element that must be followed by another one.
    Unpaired,
}

/// A message and its size.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SizedMessage {
    /// The message.
    pub message: Message,
    /// Its size in tokens, by the token counter.
    pub tokens: u64,
}

impl SizedMessage {
    /// Returns its size in bytes of JSON.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.message.bytes()
    }
}

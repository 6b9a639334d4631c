//! The messages of a window, each with its exchange and its round.

use std::num::NonZeroU32;

use tower_chat_history_core::{Message, Seq};

/// A message of the [view](crate::context::view), with its exchange and its round.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// The position of its exchange.
    pub(super) seq: Seq,
    /// The number of the message in its exchange, counted from 1. `None` if it is not one of the exchange's messages:
    /// recalled messages, and constant ones.
    pub(super) number: Option<NonZeroU32>,
    /// The round that it belongs to: it is an element of a reply with calls, or has results. Substitutes for missing
    /// results belong to it too. A message that stands for everything before it belongs to a round only if it has
    /// calls.
    pub(super) round: Option<Round>,
    /// The message that stays if the round is left out: what the message says besides its results.
    pub(super) rest: Option<Message>,
    /// True for the recalled messages of its exchange.
    pub(super) is_recalled: bool,
    /// True for the elements of its exchange's reply.
    pub(super) is_reply: bool,
    /// True if [calls or results](crate::context::server_tools) of the provider are left out of the message.
    pub(super) is_settled: bool,
    /// True while the [rule for reasoning](super::reasoning) is applied, if it leaves out the item.
    pub(super) is_left_out: bool,
}

/// The positions of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// The exchange with its calls.
    pub(super) asked: Seq,
    /// The exchange of the message after its last result. For a round at the end of the log, it is the log's next
    /// exchange.
    ///
    /// A cut leaves out a round if this position is before the cut's `rounds_start`. A round at the end of the log has
    /// the position of an exchange that does not exist yet, so no stored cut leaves it out. The next exchange may still
    /// answer it, or answer it again.
    pub(super) followed: Seq,
}

impl Item {
    /// Creates the item of a message that belongs to no round and to no reply.
    pub(super) const fn new(message: Message, seq: Seq) -> Self {
        Self {
            message,
            seq,
            number: None,
            round: None,
            rest: None,
            is_recalled: false,
            is_reply: false,
            is_settled: false,
            is_left_out: false,
        }
    }

    /// Returns `true` if the message is kept whole in a window that starts at `window` and leaves out the rounds that
    /// are followed by an exchange before `rounds`.
    pub(super) fn is_kept(&self, window: Seq, rounds: Seq) -> bool {
        self.seq >= window && self.round.is_none_or(|round| round.asked >= window && round.followed >= rounds)
    }

    /// Returns the message as it is sent in such a window: whole, only its rest, or `None` if nothing of it is kept.
    pub(super) fn message_in(&self, window: Seq, rounds: Seq) -> Option<&Message> {
        if self.is_kept(window, rounds) {
            Some(&self.message)
        } else {
            self.rest.as_ref().filter(|_| self.seq >= window)
        }
    }

    /// Returns the item in such a window: whole, only its rest, or `None` if nothing of it is kept.
    pub(super) fn kept(self, window: Seq, rounds: Seq) -> Option<Self> {
        if self.is_kept(window, rounds) { Some(self) } else { self.without_round().filter(|item| item.seq >= window) }
    }

    /// Returns the item without its round, or `None` if nothing is left.
    pub(super) fn without_round(self) -> Option<Self> {
        if self.round.is_none() {
            return Some(self);
        }
        let message = self.rest?;
        Some(Self { message, round: None, rest: None, ..self })
    }
}

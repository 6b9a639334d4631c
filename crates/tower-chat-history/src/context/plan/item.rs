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

/// The part of the log that a prompt contains: the exchanges from `window` on, without the rounds that an exchange
/// before `rounds` follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) window: Seq,
    pub(super) rounds: Seq,
}

impl Extent {
    /// The whole log.
    pub(super) const ALL: Self = Self { window: Seq::FIRST, rounds: Seq::FIRST };
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

    /// Returns `true` if a prompt with this extent contains the whole message.
    pub(super) fn is_kept(&self, extent: Extent) -> bool {
        let Some(round) = self.round else { return self.seq >= extent.window };
        self.seq >= extent.window && round.asked >= extent.window && round.followed >= extent.rounds
    }

    /// Returns the message as a prompt with this extent contains it: whole, only its rest, or `None` if nothing of it
    /// is kept.
    pub(super) fn message_in(&self, extent: Extent) -> Option<&Message> {
        if self.is_kept(extent) {
            Some(&self.message)
        } else {
            self.rest.as_ref().filter(|_| self.seq >= extent.window)
        }
    }

    /// Returns the item as a prompt with this extent contains it: whole, only its rest, or `None` if nothing of it is
    /// kept.
    pub(super) fn kept(self, extent: Extent) -> Option<Self> {
        if self.is_kept(extent) { Some(self) } else { self.without_round().filter(|item| item.seq >= extent.window) }
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

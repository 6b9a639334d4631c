//! The messages of a window, each with its exchange and its round.

use std::num::NonZeroU32;

use tower_chat_history_core::{Message, Positions, Seq};

use super::media::MediaSize;

use crate::context::bridge::{NO_REPLY, UNDERSTOOD, constant_reply};

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
    /// The message that stays if the round is left out: what the message says besides its results, or a constant reply
    /// in its place.
    pub(super) rest: Option<Message>,
    /// True if that is a constant reply.
    pub(super) rests_as_bridge: bool,
    /// True for a [constant reply](crate::context::bridge) before a question. It has the position of the item before it,
    /// or of the calls that this item answers.
    pub(super) is_bridge: bool,
    /// True if a reply between this message and the one before it, in the same exchange, is not sent.
    pub(super) follows_gap: bool,
    /// The whole message, if [old reasoning](super::thoughts) was left out of it.
    pub(super) whole: Option<Message>,
    /// True for the recalled messages of its exchange, and for the constant reply to them.
    pub(super) is_recalled: bool,
    /// True for the elements of its exchange's reply.
    pub(super) is_reply: bool,
    /// True if [calls or results](crate::context::server_tools) of the provider are left out of the message.
    pub(super) is_settled: bool,
    /// The media that are left out of the message, because its reader does not accept them.
    pub(super) left_out: MediaSize,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) window: Seq,
    pub(super) rounds: Seq,
}

impl Extent {
    /// The whole log.
    pub(super) const ALL: Self = Self { window: Seq::FIRST, rounds: Seq::FIRST };

    /// Returns the extent of a prompt under a cut with these positions.
    pub(super) fn of(Positions { window_start, rounds_start, .. }: Positions) -> Self {
        Self { window: window_start, rounds: rounds_start.max(window_start) }
    }
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
            rests_as_bridge: false,
            is_bridge: false,
            follows_gap: false,
            whole: None,
            is_recalled: false,
            is_reply: false,
            is_settled: false,
            left_out: MediaSize { number: 0, bytes: 0 },
            is_left_out: false,
        }
    }

    /// Creates the item of the constant reply to this one.
    pub(super) fn bridge(to: &Self, round: Option<Round>) -> Option<Self> {
        let message = constant_reply(&to.message, if to.is_recalled { UNDERSTOOD } else { NO_REPLY })?;
        // A result can be after a later exchange than its call, and without the call there is nothing to reply to.
        let seq = to.round.filter(|_| to.rest.is_none()).map_or(to.seq, |round| round.asked);
        Some(Self { round, is_bridge: true, is_recalled: to.is_recalled, ..Self::new(message, seq) })
    }

    /// Puts a constant reply in place of the message.
    pub(super) fn stand_in(self, reply: Message) -> Self {
        Self { round: self.round, is_bridge: true, is_recalled: self.is_recalled, ..Self::new(reply, self.seq) }
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
            self.rest.as_ref().filter(|_| self.is_rest_kept(extent))
        }
    }

    /// Returns the item as a prompt with this extent contains it: whole, only its rest, or `None` if nothing of it is
    /// kept.
    pub(super) fn kept(self, extent: Extent) -> Option<Self> {
        if self.is_kept(extent) {
            return Some(self);
        }
        let is_kept = self.is_rest_kept(extent);
        self.without_round().filter(|_| is_kept)
    }

    /// Returns `true` if a prompt with this extent contains the message without its round. A constant reply is of use
    /// only after the question before the round.
    fn is_rest_kept(&self, extent: Extent) -> bool {
        let asked = self.round.map(|round| round.asked).filter(|_| self.rests_as_bridge);
        self.seq >= extent.window && asked.is_none_or(|asked| asked >= extent.window)
    }

    /// Returns the item without its round, or `None` if nothing is left.
    pub(super) fn without_round(mut self) -> Option<Self> {
        let Some(Round { asked, .. }) = self.round.take() else { return Some(self) };
        let message = self.rest.take()?;

        // A result can be after a later exchange than its call, and the constant reply is to the question before the
        // call.
        Some(if self.rests_as_bridge {
            Self { seq: asked, ..self }.stand_in(message)
        } else {
            Self { message, ..self }
        })
    }
}

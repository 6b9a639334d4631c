//! The messages around a hit.

use std::ops::Range;

use tower_chat_history_core::{Message, Recorded, Role, Seq};

use crate::passage::is_recallable;

/// A message's place in the log.
pub(super) type Place = (Seq, u32);

/// The recallable messages of the exchange of a hit and of both its neighbors.
#[derive(Debug)]
pub(super) struct Around<'a> {
    messages: Vec<(Place, &'a Message)>,
    hit: usize,
}

impl<'a> Around<'a> {
    /// Returns the messages around a place, if its exchange is among these, which are in order.
    pub(super) fn of(exchanges: &'a [Recorded], (seq, message): Place) -> Option<Self> {
        let from = Seq::new(seq.get().saturating_sub(1));
        let mut messages = Vec::new();
        let start = exchanges.partition_point(|recorded| recorded.seq < from);
        for Recorded { seq, exchange, .. } in
            exchanges[start..].iter().take_while(|recorded| recorded.seq <= seq.next())
        {
            let all = exchange.messages.iter().zip(0_u32..);
            messages.extend(all.filter(|(message, _)| is_recallable(message)).map(|(m, index)| ((*seq, index), m)));
        }
        let hit = messages.iter().position(|(place, _)| *place == (seq, message))?;
        Some(Self { messages, hit })
    }

    /// Returns the hit with both of its neighbors. A call is there with its results.
    pub(super) fn with_neighbors(&self) -> impl Iterator<Item = Place> + use<'_> {
        let alone = self.unit(self.hit);
        if alone.len() > 1 {
            return self.places(alone);
        }
        let before = alone.start.checked_sub(1).map_or(alone.start, |before| self.unit(before).start);
        let after = if alone.end < self.messages.len() { self.unit(alone.end).end } else { alone.end };
        self.places(before..after)
    }

    /// Returns the hit alone. A call is there with its results.
    pub(super) fn alone(&self) -> impl Iterator<Item = Place> + use<'_> {
        self.places(self.unit(self.hit))
    }

    fn places(&self, range: Range<usize>) -> impl Iterator<Item = Place> + use<'_> {
        self.messages[range].iter().map(|(place, _)| *place)
    }

    /// Returns the message itself, or the whole round that it is part of: the message with the calls and the results that
    /// directly follow it.
    fn unit(&self, at: usize) -> Range<usize> {
        let is_result = |at: &usize| matches!(self.messages[*at].1.role(), Role::Tool | Role::Function);
        let calls = |at: usize| !self.messages[at].1.tool_calls().is_empty();
        let start = if is_result(&at) {
            let before = (0..at).rev().find(|at| !is_result(at));
            before.filter(|&before| calls(before)).unwrap_or(at)
        } else {
            at
        };
        if !calls(start) {
            return at..at + 1;
        }
        let results = (start + 1..self.messages.len()).take_while(is_result).count();
        start..start + 1 + results
    }
}

//! The messages around a hit.

use tower_chat_history_core::{Message, Recorded, Role, Seq};

use crate::recall::passage::is_recallable;

/// A message's place in the log.
pub(crate) type Place = (Seq, u32);

/// The most messages of a round of calls, and the most that are passed over to find a neighbor. A longer round is not
/// selected.
const MAX_STEPS: usize = 256;

/// The recallable messages around a hit, in its exchange and in the two next to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    exchanges: &'a [Recorded],
    hit: Place,
}

impl<'a> Around<'a> {
    /// Returns the messages around a place, if its exchange is among these, which are in order.
    pub(crate) fn of(exchanges: &'a [Recorded], hit: Place) -> Option<Self> {
        let at = |seq: Seq| exchanges.partition_point(|recorded| recorded.seq < seq);
        let from = at(Seq::new(hit.0.get().saturating_sub(1)));
        let around = Self { exchanges: &exchanges[from..at(hit.0.next().next()).max(from)], hit };
        around.message(hit).is_some().then_some(around)
    }

    /// Returns the hit with both of its neighbors. A call is there with its results. Returns `None` if that is too
    /// much.
    pub(crate) fn with_neighbors(&self) -> Option<Vec<Place>> {
        let alone = self.alone()?;
        if alone.len() > 1 {
            return Some(alone);
        }
        let unit = |neighbor: Option<Place>| neighbor.map_or(Some(Vec::new()), |neighbor| self.unit(neighbor));
        Some(
            [unit(self.neighbor(self.hit, Self::before))?, alone, unit(self.neighbor(self.hit, Self::after))?].concat(),
        )
    }

    /// Returns the hit alone. A call is there with its results. Returns `None` if that is too much.
    pub(crate) fn alone(&self) -> Option<Vec<Place>> {
        self.unit(self.hit)
    }

    /// Returns the message itself, or the whole round that it is part of: the message with the calls and the results
    /// that directly follow it.
    fn unit(&self, place: Place) -> Option<Vec<Place>> {
        let mut start = place;
        let mut steps = 0..MAX_STEPS;
        while self.is_result(start) {
            steps.next()?;
            let Some(before) = self.neighbor(start, Self::before) else { break };
            start = before;
        }
        if self.message(start).is_none_or(|message| message.tool_calls().is_empty()) {
            return Some(vec![place]);
        }
        let mut round = vec![start];
        let mut last = start;
        while let Some(next) = self.neighbor(last, Self::after).filter(|next| self.is_result(*next)) {
            if round.len() == MAX_STEPS {
                return None;
            }
            round.push(next);
            last = next;
        }
        Some(round)
    }

    fn is_result(&self, place: Place) -> bool {
        self.message(place).is_some_and(|message| matches!(message.role(), Role::Tool | Role::Function))
    }

    /// Returns the nearest recallable message in one direction.
    fn neighbor(&self, of: Place, step: impl Fn(&Self, Place) -> Option<Place>) -> Option<Place> {
        let mut place = of;
        for _ in 0..MAX_STEPS {
            place = step(self, place)?;
            if self.message(place).is_some_and(is_recallable) {
                return Some(place);
            }
        }
        None
    }

    fn before(&self, (seq, message): Place) -> Option<Place> {
        if let Some(before) = message.checked_sub(1) {
            return Some((seq, before));
        }
        let at = self.exchanges.partition_point(|recorded| recorded.seq < seq);
        let nonempty = |recorded: &&Recorded| !recorded.exchange.messages.is_empty();
        let before = self.exchanges.get(..at)?.iter().rfind(nonempty)?;
        Some((before.seq, u32::try_from(before.exchange.messages.len() - 1).ok()?))
    }

    fn after(&self, (seq, message): Place) -> Option<Place> {
        let next = (seq, message.checked_add(1)?);
        if self.message(next).is_some() {
            return Some(next);
        }
        let at = self.exchanges.partition_point(|recorded| recorded.seq <= seq);
        let after = self.exchanges.get(at..)?.iter().find(|recorded| !recorded.exchange.messages.is_empty())?;
        Some((after.seq, 0))
    }

    fn message(&self, (seq, message): Place) -> Option<&'a Message> {
        let at = self.exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok()?;
        self.exchanges[at].exchange.messages.get(usize::try_from(message).ok()?)
    }
}

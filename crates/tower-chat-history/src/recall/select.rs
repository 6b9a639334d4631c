//! Selection: which of the found messages are shown, within an allowance.

use std::{collections::BTreeSet, ops::Range};

use tower_chat_history_core::{Citation, Message, Recorded, Role, Seq};

use super::{
    passage::is_recallable,
    search::{Hit, Ranking},
};

/// Selects messages of a ranking within an allowance.
///
/// A unit is a hit with both of its neighbors, or, if the hit is part of a round of tool calls, the calls with their
/// results. Units are taken best first. If a unit does not fit, its hit alone is tried, then the next unit.
#[derive(Clone, Debug)]
pub struct Selector<'a> {
    within: Range<Seq>,
    already: &'a [Citation],
    allowance: u64,
    exchange_cost: u64,
    ratio: f64,
    units: usize,
}

impl<'a> Selector<'a> {
    /// The most units that are tried by default.
    pub const UNITS: usize = 256;
    /// The default of the least score, as a share of the best one.
    pub const RATIO: f64 = 0.1;

    /// Creates a selector for this range of the log, which ends where the window that is sent starts, and this
    /// allowance in tokens.
    #[must_use]
    pub const fn new(within: Range<Seq>, allowance: u64) -> Self {
        let units = if allowance / 32 < Self::UNITS as u64 { allowance as usize / 32 } else { Self::UNITS };
        Self {
            within,
            already: &[],
            allowance,
            exchange_cost: 0,
            ratio: Self::RATIO,
            units: if units < 8 { 8 } else { units },
        }
    }

    /// Sets the allowance in tokens. The number of units stays as it was.
    pub(crate) const fn with_allowance(mut self, tokens: u64) -> Self {
        self.allowance = tokens;
        self
    }

    /// Sets the messages that are shown already, by earlier selections. They are not selected again, but their scores
    /// count for the [ratio](Self::ratio), so asking twice does not bring up worse messages. The default is none.
    #[must_use]
    pub const fn already(mut self, already: &'a [Citation]) -> Self {
        self.already = already;
        self
    }

    /// Sets the cost of each exchange of which messages are selected, in tokens. The default is 0.
    #[must_use]
    pub const fn exchange_cost(mut self, tokens: u64) -> Self {
        self.exchange_cost = tokens;
        self
    }

    /// Sets the least score of a unit, as a share of the best score. The default is [`RATIO`](Self::RATIO).
    #[must_use]
    pub const fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = ratio;
        self
    }

    /// Sets the number of units that are tried, which bounds the exchanges that are [read](Self::needed). The
    /// default is one for each 32 tokens of the allowance, at least 8 and at most [`UNITS`](Self::UNITS).
    #[must_use]
    pub const fn units(mut self, units: usize) -> Self {
        self.units = units;
        self
    }

    /// Returns the positions of the exchanges that [`select`](Self::select) reads, in order: those of the best hits
    /// and their neighbors. It is empty if the gate is shut.
    #[must_use]
    pub fn needed(&self, ranking: &Ranking) -> Vec<Seq> {
        let mut needed = BTreeSet::new();
        for hit in self.candidates(ranking) {
            let around = [Seq::new(hit.seq.get().saturating_sub(1)), hit.seq, hit.seq.next()];
            needed.extend(around.into_iter().filter(|seq| self.within.contains(seq)));
        }
        needed.into_iter().collect()
    }

    /// Selects messages, in the order of the log. `exchanges` has those that are [needed](Self::needed), in order,
    /// and may have others. `cost` returns the cost of a message in tokens, given its exchange and its place there.
    ///
    /// Nothing is selected if the gate is shut.
    pub fn select(
        &self,
        ranking: &Ranking,
        exchanges: &[Recorded],
        cost: impl FnMut(&Recorded, u32) -> u64,
    ) -> Vec<Citation> {
        let units = self.units_of(ranking, exchanges, cost);
        citations(units.flatten().flatten().collect::<BTreeSet<Place>>())
    }

    /// Selects messages, as [`select`](Self::select) does. Returns the new messages of each candidate, best first, or
    /// `None` for one that is not taken. A caller can pause between them.
    pub(crate) fn units_of<'r>(
        &self,
        ranking: &'r Ranking,
        exchanges: &'r [Recorded],
        cost: impl FnMut(&Recorded, u32) -> u64 + 'r,
    ) -> impl Iterator<Item = Option<Vec<Place>>> + 'r {
        let from = exchanges.partition_point(|recorded| recorded.seq < self.within.start);
        let to = exchanges.partition_point(|recorded| recorded.seq < self.within.end);
        let mut purse = Purse {
            exchanges: &exchanges[from..to.max(from)],
            shown: places(self.already).collect(),
            selected: BTreeSet::new(),
            left: self.allowance,
            exchange_cost: self.exchange_cost,
            cost,
        };
        self.candidates(ranking).map(move |hit| {
            let place = hit.place();
            if purse.shown.contains(&place) {
                return None;
            }
            let around = Around::of(purse.exchanges, place)?;
            let whole = around.with_neighbors().and_then(|unit| purse.take(unit));
            let unit = match whole {
                Some(unit) => unit,
                None => purse.take(around.alone()?)?,
            };
            (!unit.is_empty()).then_some(unit)
        })
    }

    fn candidates<'r>(&self, ranking: &'r Ranking) -> impl Iterator<Item = &'r Hit> + use<'r> {
        let best = ranking.hits.iter().map(|hit| hit.score).fold(0.0, f64::max);
        let least = best * self.ratio;
        let units = if ranking.gate.open { self.units } else { 0 };
        let within = self.within.clone();

        let inside = ranking.hits.iter().filter(move |hit| within.contains(&hit.seq));
        inside.take_while(move |hit| hit.score >= least).take(units)
    }
}

/// The messages that are selected so far, and the tokens that are left.
#[derive(Debug)]
struct Purse<'a, C> {
    exchanges: &'a [Recorded],
    /// The messages that are shown already.
    shown: BTreeSet<Place>,
    selected: BTreeSet<Place>,
    left: u64,
    exchange_cost: u64,
    cost: C,
}

impl<C: FnMut(&Recorded, u32) -> u64> Purse<'_, C> {
    /// Selects the messages of a unit that are new, if they fit, and returns them. Returns `None` if they
    /// do not fit.
    fn take(&mut self, mut unit: Vec<Place>) -> Option<Vec<Place>> {
        unit.retain(|place| !self.shown.contains(place) && !self.selected.contains(place));
        self.left = self.left.checked_sub(self.cost_of(&unit)?)?;
        self.selected.extend(unit.iter().copied());
        Some(unit)
    }

    /// Returns the cost of messages, in the order of the log, or `None` if one is not there.
    fn cost_of(&mut self, messages: &[Place]) -> Option<u64> {
        let mut sum = 0_u64;
        let mut last = None;
        for &(seq, message) in messages {
            let at = self.exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok()?;
            sum = sum.saturating_add((self.cost)(&self.exchanges[at], message));
            if last != Some(seq) && !self.has_exchange(seq) {
                sum = sum.saturating_add(self.exchange_cost);
            }
            last = Some(seq);
        }
        Some(sum)
    }

    fn has_exchange(&self, seq: Seq) -> bool {
        self.selected.range((seq, 0)..=(seq, u32::MAX)).next().is_some()
    }
}

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
        let first = Seq::new(hit.0.get().saturating_sub(1));
        let last = hit.0.next();
        let from = exchanges.partition_point(|recorded| recorded.seq < first);
        let to = exchanges.partition_point(|recorded| recorded.seq <= last);

        let around = Self { exchanges: &exchanges[from..to.max(from)], hit };
        around.message(hit).is_some().then_some(around)
    }

    /// Returns the hit with both of its neighbors. A call is there with its results. Returns `None` if that is too
    /// much.
    pub(crate) fn with_neighbors(&self) -> Option<Vec<Place>> {
        let alone = self.alone()?;
        if alone.len() > 1 {
            return Some(alone);
        }

        let mut unit = Vec::new();
        if let Some(before) = self.neighbor(self.hit, Self::before) {
            unit.extend(self.unit(before)?);
        }
        unit.extend(alone);
        if let Some(after) = self.neighbor(self.hit, Self::after) {
            unit.extend(self.unit(after)?);
        }
        Some(unit)
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
        let before = self.exchanges.get(..at)?.iter().rfind(|recorded| !recorded.exchange.messages.is_empty())?;
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

/// The most messages of a citation that are read, so that a damaged one costs little.
const MAX_MESSAGES: usize = 1 << 16;

/// Returns the cited messages of an exchange, in order. It is empty if the citation is of another exchange.
///
/// ```
/// use tower_chat_history_core::{Citation, Message, Recorded, Seq};
/// use tower_chat_history::recall::cited;
///
/// let log = Recorded::log(vec![Message::user("My dog is called Rex.")]);
/// assert_eq!(cited(&Citation::new(Seq::FIRST, 0..9), &log[0])[0].text(), "My dog is called Rex.");
/// assert!(cited(&Citation::new(Seq::new(7), 0..9), &log[0]).is_empty());
/// ```
#[must_use]
pub fn cited<'a>(citation: &Citation, recorded: &'a Recorded) -> &'a [Message] {
    if recorded.seq != citation.seq {
        return &[];
    }
    let messages = &recorded.exchange.messages;
    let end = usize::try_from(citation.messages.end).unwrap_or(usize::MAX).min(messages.len());
    let start = usize::try_from(citation.messages.start).unwrap_or(usize::MAX);
    messages.get(start..end).unwrap_or_default()
}

/// Returns each cited message's place.
pub(crate) fn places(citations: &[Citation]) -> impl Iterator<Item = Place> {
    citations.iter().flat_map(|citation| {
        let seq = citation.seq;
        citation.messages.clone().take(MAX_MESSAGES).map(move |message| (seq, message))
    })
}

/// Returns the citations of places, which are in order.
pub(crate) fn citations(places: impl IntoIterator<Item = Place>) -> Vec<Citation> {
    let mut citations: Vec<Citation> = Vec::new();
    for (seq, message) in places {
        match citations.last_mut() {
            Some(last) if last.seq == seq && last.messages.end == message => {
                last.messages.end = message.saturating_add(1);
            }
            _ => citations.push(Citation::new(seq, message..message.saturating_add(1))),
        }
    }
    citations
}

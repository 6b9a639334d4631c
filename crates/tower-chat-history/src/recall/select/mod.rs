//! Selection: which of the found messages are shown, within an allowance.

mod cited;
mod messages;
mod purse;

use std::{collections::BTreeSet, ops::Range};

use tower_chat_history_core::{Citation, Recorded, Seq};

pub use self::cited::cited;
use self::purse::Purse;
pub(crate) use self::{
    cited::{citations, places},
    messages::{Around, Place},
};
use crate::recall::search::{Hit, Ranking};

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
            let place = (hit.seq, hit.message);
            if purse.shown.contains(&place) {
                return None;
            }
            let around = Around::of(purse.exchanges, place)?;
            let mut take = |unit: Option<Vec<Place>>| unit.and_then(|unit| purse.take(unit));
            take(around.with_neighbors()).or_else(|| take(around.alone())).filter(|unit| !unit.is_empty())
        })
    }

    fn candidates<'r>(&self, ranking: &'r Ranking) -> impl Iterator<Item = &'r Hit> + use<'r> {
        let best = ranking.hits.iter().map(|hit| hit.score).fold(0.0, f64::max);
        let least = best * self.ratio;
        let (within, units) = (self.within.clone(), if ranking.gate.open { self.units } else { 0 });
        let inside = ranking.hits.iter().filter(move |hit| within.contains(&hit.seq));
        inside.take_while(move |hit| hit.score >= least).take(units)
    }
}

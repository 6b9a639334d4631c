//! Ranked messages.

use std::{cmp::Ordering, ops::Range};

use tower_chat_history_core::Seq;

use super::{Query, counted::evidence, scorer::Scoring, terms::LogTerms};
use crate::recall::{
    fusion::fuse,
    gate::{Gate, Outcome},
};

/// A search: the range of the log that is searched, and the gate.
#[derive(Clone, Debug)]
pub struct Search {
    within: Range<Seq>,
    gate: Gate,
    smoothed: bool,
    limit: usize,
}

/// A message that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The exchange.
    pub seq: Seq,
    /// The message, by its place in the exchange.
    pub message: u32,
    /// The score of its best passage. It is greater than 0, and comparable within one ranking only.
    pub score: f64,
}

/// The messages that were found, best first. Of equal scores, the newer message comes first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// The messages.
    pub hits: Vec<Hit>,
    /// The decision of the gate. If it is shut, the hits are not to be shown.
    pub gate: Outcome,
    /// The number of passages that were searched.
    pub documents: u32,
}

impl Hit {
    /// Orders better hits first, and newer ones first if the scores are equal.
    pub(crate) fn better_first(&self, other: &Self) -> Ordering {
        let newer_first = || (other.seq, other.message).cmp(&(self.seq, self.message));
        other.score.total_cmp(&self.score).then_with(newer_first)
    }
}

impl Ranking {
    /// Returns this ranking by words fused with one by meaning, best first, by [reciprocal rank](crate::recall::fuse). At
    /// most [`Search::LIMIT`] hits of each count.
    ///
    /// The gate stays as the words decided it. A caller who trusts the best cosine more can set `gate.open`.
    ///
    /// Scores of the result say little: a [selection](crate::recall::Selector::ratio) of it should use the ratio 0.
    #[must_use]
    pub fn fused_with(mut self, by_meaning: &[Hit]) -> Self {
        let places = |hits: &[Hit]| -> Vec<(Seq, u32)> {
            hits.iter().take(Search::LIMIT).map(|hit| (hit.seq, hit.message)).collect()
        };
        let fused = fuse(&places(&self.hits), &places(by_meaning));
        self.hits = fused.into_iter().map(|((seq, message), score)| Hit { seq, message, score }).collect();
        self
    }
}

impl Search {
    /// The default number of messages that are ranked.
    pub const LIMIT: usize = 256;

    /// Creates a search of this range: from the log's first position to the start of the window that is sent,
    /// because what the window shows is never recalled. Everything that is counted, such as the frequency of a word,
    /// is counted in this range.
    #[must_use]
    pub const fn new(within: Range<Seq>, gate: Gate) -> Self {
        Self { within, gate, smoothed: true, limit: Self::LIMIT }
    }

    /// Sets the number of messages that are ranked. The default is [`LIMIT`](Self::LIMIT).
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Leaves out the scores of neighbors, for comparison: the result is plain BM25.
    #[must_use]
    pub const fn without_neighbors(mut self) -> Self {
        self.smoothed = false;
        self
    }

    /// Searches a log. Exchanges that are not in the range are left out.
    #[must_use]
    pub fn run(&self, log: &LogTerms, query: &Query) -> Ranking {
        let mut scoring = Scoring::new(query);
        for exchange in log.exchanges() {
            if self.within.contains(&exchange.seq) {
                scoring.add(exchange);
            }
        }
        let (hits, counted) = scoring.finish(self.smoothed, self.limit);
        let (evidence, documents) = evidence(&[&counted], query, |term| self.gate.counts(term));
        Ranking { hits, gate: self.gate.outcome(&evidence, documents, query.asks()), documents }
    }
}

//! Searching: from a query to ranked messages.

mod scorer;
mod terms;

use std::{collections::BTreeMap, ops::Range};

use tower_chat_history_core::Seq;

pub use self::{scorer::Hit, terms::LogTerms};
pub(crate) use self::{
    scorer::{Scoring, Statistics, evidence},
    terms::{Document, ExchangeTerms, Query},
};
use super::gate::{Decision, Gate};

/// A search: the range of the log that is searched, and the gate.
#[derive(Clone, Debug)]
pub struct Search {
    within: Range<Seq>,
    gate: Gate,
    smoothed: bool,
    limit: usize,
}

/// The messages that were found, best first. Of equal scores, the newer message comes first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// The messages.
    pub hits: Vec<Hit>,
    /// The decision of the gate. If it is shut, the hits are not to be shown.
    pub gate: Decision,
    /// The number of passages that were searched.
    pub documents: u32,
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
        let by_words: Vec<(Seq, u32)> = self.hits.iter().take(Search::LIMIT).map(Hit::place).collect();
        let by_meaning: Vec<(Seq, u32)> = by_meaning.iter().take(Search::LIMIT).map(Hit::place).collect();

        let fused = fuse(&by_words, &by_meaning);
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

    /// Searches a log for the words of a text. Exchanges that are not in the range are left out.
    #[must_use]
    pub fn run(&self, log: &LogTerms, text: &str) -> Ranking {
        let query = Query::new(log.analyzer(), text);
        let mut scoring = Scoring::new(&query);
        for exchange in log.exchanges() {
            if self.within.contains(&exchange.seq) {
                scoring.add(exchange);
            }
        }
        let (hits, counted) = scoring.finish(self.smoothed, self.limit);
        let (evidence, documents) = evidence(&[&counted], &query, |term| self.gate.counts(term));
        Ranking { hits, gate: self.gate.outcome(&evidence, documents, query.asks()), documents }
    }
}

/// The constant of reciprocal rank fusion.
const K: f64 = 60.0;

/// Fuses two ranked lists, best first, by reciprocal rank: an item's score is the sum of `1 / (60 + rank)` over the
/// lists that have it. Ranks begin at 1.
///
/// Returns the items with their scores, best first. Of equal scores, the greater item comes first: of positions in a
/// log, the newer one. An item counts once in a list, at its best rank.
///
/// ```
/// use tower_chat_history::recall::fuse;
///
/// let items: Vec<char> = fuse(&['a', 'b', 'c'], &['c', 'b']).into_iter().map(|(item, _)| item).collect();
/// assert_eq!(items, ['c', 'b', 'a']);
/// ```
#[must_use]
pub fn fuse<T: Ord + Copy>(by_words: &[T], by_meaning: &[T]) -> Vec<(T, f64)> {
    let mut scores: BTreeMap<T, [Option<f64>; 2]> = BTreeMap::new();
    for (list, items) in [by_words, by_meaning].into_iter().enumerate() {
        let mut rank = 1.0;
        for &item in items {
            let score = &mut scores.entry(item).or_default()[list];
            if score.is_none() {
                *score = Some(1.0 / (K + rank));
                rank += 1.0;
            }
        }
    }

    let mut fused = Vec::new();
    for (item, [words, meaning]) in scores {
        fused.push((item, words.unwrap_or_default() + meaning.unwrap_or_default()));
    }
    fused.sort_by(|(a, a_score), (b, b_score)| b_score.total_cmp(a_score).then(b.cmp(a)));
    fused
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fusion_keeps_each_item_once_and_an_agreed_order(
            a in prop::collection::vec(0..30_u8, 0..30),
            b in prop::collection::vec(0..30_u8, 0..30),
        ) {
            let fused = fuse(&a, &b);
            let mut items: Vec<u8> = fused.iter().map(|(item, _)| *item).collect();
            items.sort_unstable();
            let mut all = [a.clone(), b.clone()].concat();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(items, all);
            prop_assert!(fused.is_sorted_by(|(a, x), (b, y)| x > y || x == y && a > b));
            let swapped = fuse(&b, &a);
            prop_assert_eq!(&fused, &swapped);
            let alone: Vec<u8> = fuse(&a, &[]).into_iter().map(|(item, _)| item).collect();
            let mut distinct = a;
            let mut seen = std::collections::HashSet::new();
            distinct.retain(|item| seen.insert(*item));
            prop_assert_eq!(alone, distinct);
        }
    }
}

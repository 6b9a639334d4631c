//! Ranked messages.

use std::{cmp::Ordering, collections::HashSet, ops::Range};

use tower_chat_history_core::{Recorded, Seq};

use super::{
    Query,
    counted::{Counted, evidence},
    parts::{Looked, Parts},
    scorer::{Scored, Scores, score, smooth},
};
use crate::{
    fusion::fuse,
    gate::{Gate, Outcome},
    index::{IndexPart, LogIndex},
    varint::DecodeError,
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
    /// Returns this ranking by words fused with one by meaning, best first, by [reciprocal rank](crate::fuse). At
    /// most [`Search::LIMIT`] hits of each count.
    ///
    /// The gate stays as the words decided it. A caller who trusts the best cosine more can set `gate.open`.
    ///
    /// Scores of the result say little: a [selection](crate::Selector::ratio) of it should use the ratio 0.
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

    /// Searches a log. `exchanges` has the exchanges of the range that are in no part of the index, in order, and
    /// may have others.
    ///
    /// The result depends on the log and the range, not on the parts.
    ///
    /// # Errors
    ///
    /// Returns an error if a part is damaged, or lacks a bucket of the query.
    pub fn run(&self, index: &LogIndex, exchanges: &[Recorded], query: &Query) -> Result<Ranking, DecodeError> {
        let missing = index.missing(self.within.clone()).into_iter().filter_map(|range| {
            let at = |seq: Seq| exchanges.partition_point(|recorded| recorded.seq < seq);
            let exchanges = &exchanges[at(range.start)..at(range.end)];
            let range = exchanges.first()?.seq..exchanges.last()?.seq.next();
            Some(IndexPart::index(index.analyzer(), range, exchanges))
        });
        let missing: Vec<IndexPart> = missing.collect();
        let mut parts: Vec<&IndexPart> = index.parts().iter().chain(&missing).collect();
        parts.sort_by_key(|part| part.range().start);
        self.run_parts(parts, query)
    }

    /// Searches parts, which must be in order and must not overlap.
    ///
    /// # Errors
    ///
    /// Returns an error if a part is damaged, or lacks a bucket of the query.
    pub fn run_parts<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a IndexPart>,
        query: &Query,
    ) -> Result<Ranking, DecodeError> {
        let parts = parts.into_iter().filter(|part| self.reads(part));
        let looked = parts.map(|part| Ok((part, part.find(query.terms())?)));
        let (hits, counted) = self.score(looked.collect::<Result<Vec<Looked<'a>>, _>>()?, query)?.hits();
        let (evidence, documents) = evidence(&[&counted], query, |term| self.gate.counts(term));
        Ok(Ranking { hits, gate: self.gate.outcome(&evidence, documents, query.asks()), documents })
    }

    /// Returns `true` if a part has documents in the range.
    pub(crate) fn reads(&self, part: &IndexPart) -> bool {
        !part.document_list().numbers(&self.within).is_empty()
    }

    /// Scores the documents of parts in which the terms of the query were looked up.
    pub(crate) fn score<'a>(
        &self,
        looked: impl IntoIterator<Item = Looked<'a>>,
        query: &Query,
    ) -> Result<Scoring<'a>, DecodeError> {
        let parts = Parts::new(looked, &self.within);
        let scores = score(&parts, query)?;
        Ok(Scoring { parts, scores, smoothed: self.smoothed, limit: self.limit })
    }
}

/// The scores of documents, not in order yet.
#[derive(Debug)]
pub(crate) struct Scoring<'a> {
    parts: Parts<'a>,
    scores: Scores,
    smoothed: bool,
    limit: usize,
}

impl Scoring<'_> {
    /// Returns the best messages, best first, and what was counted.
    pub(crate) fn hits(self) -> (Vec<Hit>, Counted) {
        let Self { parts, scores: Scores { documents, counted }, smoothed, limit } = self;
        let scored = if smoothed { smooth(&documents, parts.documents) } else { documents };
        (best(scored, limit, &parts), counted)
    }
}

/// Returns the best messages, best first.
fn best(mut scored: Vec<Scored>, limit: usize, parts: &Parts<'_>) -> Vec<Hit> {
    let order = |a: &Scored, b: &Scored| b.score.total_cmp(&a.score).then(b.document.cmp(&a.document));
    // A message may have several passages among the best.
    let some = limit.saturating_mul(4);
    if scored.len() > some && some > 0 {
        scored.select_nth_unstable_by(some, order);
        scored.truncate(some);
    }
    scored.sort_unstable_by(order);
    let mut seen = HashSet::new();
    let hits = scored.iter().filter_map(|scored| {
        let (seq, message) = parts.position(scored.document)?;
        seen.insert((seq, message)).then_some(Hit { seq, message, score: scored.score })
    });
    hits.take(limit).collect()
}

//! BM25 over passages, smoothed over neighbors, and the evidence for the gate.
//!
//! All sums are made in a fixed order, the terms of a document in ascending order, in `f64`. So equal logs have equal
//! scores, to the last bit.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use tower_chat_history_core::Seq;

use super::terms::{ExchangeTerms, Query};
use crate::recall::{analyzer::Term, gate::Evidence};

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

impl Hit {
    /// Returns the place of the message in the log.
    pub(crate) const fn place(&self) -> (Seq, u32) {
        (self.seq, self.message)
    }

    /// Orders better hits first, and newer ones first if the scores are equal.
    pub(crate) fn better_first(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then_with(|| (other.seq, other.message).cmp(&(self.seq, self.message)))
    }
}

/// Saturation of repeated terms.
const K1: f64 = 1.2;
/// Normalization by length.
const B: f64 = 0.75;
/// The most terms of a query that are scored: the rarest. A set of them has 32 bits.
const MAX_TERMS: usize = 32;
/// The most occurrences that are scored for a query, those of the rarest terms first.
const MAX_OCCURRENCES: u32 = 65_536;

/// Scores the passages of a log for a query. The exchanges are added in the order of the log.
#[derive(Debug)]
pub(crate) struct Scoring<'a> {
    query: &'a Query,
    /// The exchange and the message of each document.
    places: Vec<(Seq, u32)>,
    /// The number of terms of all documents.
    terms: u64,
    occurrences: Vec<Occurrence>,
}

/// A term of the query that a document has.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    document: u32,
    /// The term, by its place in the query.
    place: usize,
    frequency: u32,
    /// The number of terms of the document.
    length: u32,
}

/// A document with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DocumentScore {
    document: u32,
    score: f64,
}

impl<'a> Scoring<'a> {
    /// Begins with no exchange.
    pub(crate) const fn new(query: &'a Query) -> Self {
        Self { query, places: Vec::new(), terms: 0, occurrences: Vec::new() }
    }

    /// Adds the next exchange.
    pub(crate) fn add(&mut self, exchange: &ExchangeTerms) {
        for document in &exchange.documents {
            let number = size(self.places.len());
            self.places.push((exchange.seq, document.message));

            let length = size(document.terms.len());
            self.terms += u64::from(length);

            for same in document.terms.chunk_by(|a, b| a == b) {
                if let Ok(place) = self.query.terms().binary_search(&same[0]) {
                    let frequency = size(same.len());
                    self.occurrences.push(Occurrence { document: number, place, frequency, length });
                }
            }
        }
    }

    /// Returns the best messages, best first, and what was counted. If `smoothed` is set, passages score for their
    /// neighbors, too.
    pub(crate) fn finish(mut self, smoothed: bool, limit: usize) -> (Vec<Hit>, Statistics) {
        let mut frequencies = vec![0; self.query.terms().len()];
        for occurrence in &self.occurrences {
            frequencies[occurrence.place] += 1;
        }

        let chosen = choose(&frequencies);
        self.occurrences.retain(|occurrence| chosen.binary_search(&occurrence.place).is_ok());

        let documents = size(self.places.len());
        let mean = if documents == 0 { 0.0 } else { self.terms as f64 / f64::from(documents) };
        let mut counted = Statistics { documents, frequencies, chosen, combinations: Default::default() };

        let mut scored = Vec::new();
        for same in self.occurrences.chunk_by(|a, b| a.document == b.document) {
            let mut score = 0.0;
            let mut combination = 0_u32;
            for occurrence in same {
                let frequency = counted.frequencies[occurrence.place];
                score += idf(f64::from(documents), f64::from(frequency)) * saturated(occurrence, mean);

                if let Ok(at) = counted.chosen.binary_search(&occurrence.place) {
                    combination |= 1 << at;
                }
            }
            counted.combinations.insert(combination);
            scored.push(DocumentScore { document: same[0].document, score });
        }

        if smoothed {
            scored = smooth(&scored, documents);
        }
        (self.best(scored, limit), counted)
    }

    /// Returns the best messages, best first.
    fn best(&self, mut scored: Vec<DocumentScore>, limit: usize) -> Vec<Hit> {
        // A message may have several passages among the best.
        let some = limit.saturating_mul(4);
        if scored.len() > some && some > 0 {
            scored.select_nth_unstable_by(some, DocumentScore::better_first);
            scored.truncate(some);
        }
        scored.sort_unstable_by(DocumentScore::better_first);

        let mut seen = HashSet::new();
        let mut hits = Vec::new();
        for DocumentScore { document, score } in scored {
            if hits.len() == limit {
                break;
            }
            let place = usize::try_from(document).ok().and_then(|number| self.places.get(number));
            let Some(&(seq, message)) = place else { continue };
            if seen.insert((seq, message)) {
                hits.push(Hit { seq, message, score });
            }
        }
        hits
    }
}

impl DocumentScore {
    /// Orders better documents first, and newer ones first if the scores are equal.
    fn better_first(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(other.document.cmp(&self.document))
    }
}

fn size(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the places of the rarest of the terms, in ascending order.
fn choose(frequencies: &[u32]) -> Vec<usize> {
    let mut rarest: Vec<(u32, usize)> = frequencies.iter().copied().zip(0..).collect();
    rarest.retain(|(frequency, _)| *frequency > 0);
    rarest.sort_unstable();
    rarest.truncate(MAX_TERMS);

    let mut left = MAX_OCCURRENCES;
    let mut chosen = Vec::new();
    for (frequency, place) in rarest {
        let Some(rest) = left.checked_sub(frequency) else { break };
        left = rest;
        chosen.push(place);
    }
    chosen.sort_unstable();
    chosen
}

/// Returns the weight of a term that this many of the documents have.
fn idf(documents: f64, frequency: f64) -> f64 {
    ((documents - frequency + 0.5) / (frequency + 0.5)).ln_1p()
}

fn saturated(occurrence: &Occurrence, mean: f64) -> f64 {
    let frequency = f64::from(occurrence.frequency);
    let relative = if mean > 0.0 { f64::from(occurrence.length) / mean } else { 1.0 };
    frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * relative))
}

/// Adds half of each document's score to both of its neighbors, which may have had none. `scored` is in the order of
/// documents, of which there are `documents`, and so is the result.
fn smooth(scored: &[DocumentScore], documents: u32) -> Vec<DocumentScore> {
    let mut smoothed: Vec<DocumentScore> = Vec::with_capacity(scored.len().saturating_mul(2));
    for hit in scored {
        if let Some(before) = hit.document.checked_sub(1) {
            add(&mut smoothed, before, hit.score * 0.5);
        }
        add(&mut smoothed, hit.document, hit.score);
        if hit.document + 1 < documents {
            add(&mut smoothed, hit.document + 1, hit.score * 0.5);
        }
    }
    smoothed
}

/// Adds a score to that of a document.
fn add(smoothed: &mut Vec<DocumentScore>, document: u32, score: f64) {
    // Only the last ones can be neighbors.
    match smoothed.iter_mut().rev().take(3).find(|known| known.document == document) {
        Some(known) => known.score += score,
        None => smoothed.push(DocumentScore { document, score }),
    }
}

/// The statistics of a log for the terms of a query. The terms are named by their places in the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// The number of documents.
    pub(crate) documents: u32,
    /// The number of documents with each term.
    frequencies: Vec<u32>,
    /// The terms that were scored, in order. They are at most 32.
    chosen: Vec<usize>,
    /// The sets of chosen terms that documents have, as bits.
    combinations: BTreeSet<u32>,
}

impl Statistics {
    /// Returns the score of a document that has each word of the query and is saturated with it. So shares of it can be
    /// compared between logs, however many documents they have: a word that a log lacks counts as a rare one.
    pub(crate) fn weight(&self, query: &Query) -> f64 {
        let mut words: BTreeMap<usize, u32> = BTreeMap::new();
        for (word, frequency) in query.words().iter().zip(&self.frequencies) {
            let known = words.entry(*word).or_default();
            *known = (*known).max(*frequency);
        }
        let documents = f64::from(self.documents);
        words.into_values().fold(0.0, |sum, frequency| sum + idf(documents, f64::from(frequency))) * (K1 + 1.0)
    }
}

/// Returns the evidence of logs as if they were one log, and the number of their documents. `counts` says if a term
/// counts as evidence.
pub(crate) fn evidence(logs: &[&Statistics], query: &Query, counts: impl Fn(Term) -> bool) -> (Evidence, u32) {
    let documents = logs.iter().fold(0_u32, |sum, log| sum.saturating_add(log.documents));

    // If one form of a word is no evidence, the word is none.
    let mut idle: HashSet<usize> = HashSet::new();
    for (term, word) in query.terms().iter().zip(query.words()) {
        if !counts(*term) {
            idle.insert(*word);
        }
    }

    // For each form, its word with the information that the form has.
    let mut bits: Vec<Option<(usize, f64)>> = Vec::new();
    for (place, word) in query.words().iter().enumerate() {
        if idle.contains(word) {
            bits.push(None);
            continue;
        }
        let frequencies = logs.iter().filter_map(|log| log.frequencies.get(place));
        let frequency: u64 = frequencies.map(|frequency| u64::from(*frequency)).sum();
        bits.push(Some((*word, (f64::from(documents) / frequency as f64).log2())));
    }

    let mut evidence = Evidence::default();
    let mut evident: Vec<(usize, f64)> = Vec::new();
    for log in logs {
        for combination in &log.combinations {
            evident.clear();
            for (at, place) in log.chosen.iter().enumerate() {
                if combination >> at & 1 == 0 {
                    continue;
                }
                let Some((word, bits)) = bits.get(*place).copied().flatten() else { continue };
                // Forms of one word are evidence once.
                match evident.iter_mut().find(|(known, _)| *known == word) {
                    Some((_, known)) => *known = bits.max(*known),
                    None => evident.push((word, bits)),
                }
            }
            evidence.add(evident.iter().fold(0.0, |sum, (_, bits)| sum + bits), evident.len());
        }
    }
    (evidence, documents)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn smoothing_adds_half_of_both_neighbors(own in prop::collection::vec(prop_oneof![Just(0_u32), 1..9_u32], 1..30)) {
            let at = |index: usize| own.get(index).map_or(0.0, |&score| f64::from(score));
            let hits: Vec<DocumentScore> = (0..own.len())
                .filter(|&index| own[index] > 0)
                .map(|index| DocumentScore { document: u32::try_from(index).unwrap(), score: at(index) })
                .collect();
            let expected: Vec<(usize, f64)> = (0..own.len())
                .map(|index| (index, at(index) + (index.checked_sub(1).map_or(0.0, at) + at(index + 1)) * 0.5))
                .filter(|(_, score)| *score > 0.0)
                .collect();
            let smoothed = smooth(&hits, u32::try_from(own.len()).unwrap());
            let smoothed: Vec<(usize, f64)> = smoothed.iter().map(|s| (s.document as usize, s.score)).collect();
            prop_assert_eq!(smoothed, expected);
        }
    }
}

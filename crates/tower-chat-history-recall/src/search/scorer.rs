//! BM25 over passages, smoothed over neighbors.
//!
//! All sums are made in a fixed order, the terms of a document in ascending order, in `f64`. So equal logs have equal
//! scores, to the last bit, whatever parts their index has.

use super::{
    counted::Counted,
    parts::{Occurrence, Parts},
    query::Query,
};
use crate::varint::DecodeError;

/// Saturation of repeated terms.
pub(super) const K1: f64 = 1.2;
/// Normalization by length.
const B: f64 = 0.75;
/// The most terms of a query that are scored: the rarest. A set of them has 32 bits.
const MAX_TERMS: usize = 32;
/// The most postings that are read for a query, those of the rarest terms first.
const MAX_POSTINGS: u32 = 65_536;

/// A term that is scored, by its place in the query.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    place: usize,
    frequency: u32,
}

/// A document with its scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) document: u32,
    pub(super) score: f64,
}

/// The documents that have a term of the query, in order, by BM25, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Scores {
    pub(super) documents: Vec<Scored>,
    pub(super) counted: Counted,
}

/// Scores the documents.
pub(super) fn score(parts: &Parts<'_>, query: &Query) -> Result<Scores, DecodeError> {
    let documents = f64::from(parts.documents);
    let mean = if parts.documents == 0 { 0.0 } else { parts.tokens as f64 / documents };
    let frequencies = (0..query.terms().len()).map(|place| parts.frequency(place)).collect::<Result<Vec<u32>, _>>()?;
    let chosen = choose(&frequencies);

    let mut hits: Vec<TermScore> = Vec::new();
    for (chosen, term) in chosen.iter().zip(0_u8..) {
        let idf = idf(documents, f64::from(chosen.frequency));
        parts.each(chosen.place, |occurrence| {
            hits.push(TermScore { document: occurrence.document, term, score: idf * saturated(&occurrence, mean) });
        })?;
    }
    // The sort is stable, so the scores of a document stay in the order of terms.
    hits.sort_by_key(|hit| hit.document);
    let mut scores = Scores::default();
    for same in hits.chunk_by(|a, b| a.document == b.document) {
        let score = same.iter().fold(0.0, |sum, hit| sum + hit.score);
        scores.documents.push(Scored { document: same[0].document, score });
        scores.counted.combinations.insert(same.iter().fold(0, |bits, hit| bits | 1 << hit.term));
    }
    scores.counted.documents = parts.documents;
    scores.counted.chosen = chosen.iter().map(|chosen| chosen.place).collect();
    scores.counted.frequencies = frequencies;
    Ok(scores)
}

/// The score of a document by one term.
#[derive(Clone, Copy, Debug)]
struct TermScore {
    document: u32,
    term: u8,
    score: f64,
}

/// Returns the rarest of the terms, in ascending order of the terms.
fn choose(frequencies: &[u32]) -> Vec<Chosen> {
    let each = frequencies.iter().enumerate();
    let mut all: Vec<Chosen> = each.map(|(place, frequency)| Chosen { place, frequency: *frequency }).collect();
    all.retain(|chosen| chosen.frequency > 0);
    all.sort_unstable_by_key(|chosen| (chosen.frequency, chosen.place));
    all.truncate(MAX_TERMS);
    let mut left = MAX_POSTINGS;
    let fits = all.iter().take_while(|chosen| match left.checked_sub(chosen.frequency) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    let fitting = fits.count();
    all.truncate(fitting);
    all.sort_unstable_by_key(|chosen| chosen.place);
    all
}

/// Returns the weight of a term that this many of the documents have.
pub(super) fn idf(documents: f64, frequency: f64) -> f64 {
    ((documents - frequency + 0.5) / (frequency + 0.5)).ln_1p()
}

fn saturated(occurrence: &Occurrence, mean: f64) -> f64 {
    let frequency = f64::from(occurrence.frequency);
    let relative = if mean > 0.0 { f64::from(occurrence.length) / mean } else { 1.0 };
    frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * relative))
}

/// Adds half of each document's score to both of its neighbors, which may have had none. `scored` is in the order of
/// documents, of which there are `documents`, and so is the result.
pub(super) fn smooth(scored: &[Scored], documents: u32) -> Vec<Scored> {
    let mut smoothed: Vec<Scored> = Vec::with_capacity(scored.len().saturating_mul(2));
    let mut add = |document: u32, score: f64| {
        // Only the last ones can be neighbors.
        match smoothed.iter_mut().rev().take(3).find(|known| known.document == document) {
            Some(known) => known.score += score,
            None => smoothed.push(Scored { document, score }),
        }
    };
    for hit in scored {
        if let Some(before) = hit.document.checked_sub(1) {
            add(before, hit.score * 0.5);
        }
        add(hit.document, hit.score);
        if hit.document + 1 < documents {
            add(hit.document + 1, hit.score * 0.5);
        }
    }
    smoothed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn smoothing_adds_half_of_both_neighbors(own in prop::collection::vec(prop_oneof![Just(0_u32), 1..9_u32], 1..30)) {
            let at = |index: usize| own.get(index).map_or(0.0, |&score| f64::from(score));
            let hits: Vec<Scored> = (0..own.len())
                .filter(|&index| own[index] > 0)
                .map(|index| Scored { document: u32::try_from(index).unwrap(), score: at(index) })
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

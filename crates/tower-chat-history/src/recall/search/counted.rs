//! The statistics of a log that a search counts: the evidence for the gate, and the weight of the query.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    query::Query,
    scorer::{K1, idf},
};
use crate::recall::{analyzer::Term, gate::Evidence};

/// The statistics of a log for the terms of a query. The terms are named by their places in the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number of documents.
    pub(crate) documents: u32,
    /// The number of documents with each term.
    pub(super) frequencies: Vec<u32>,
    /// The terms that were scored, in order. They are at most 32.
    pub(super) chosen: Vec<usize>,
    /// The sets of chosen terms that documents have, as bits.
    pub(super) combinations: BTreeSet<u32>,
}

impl Counted {
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
pub(crate) fn evidence(logs: &[&Counted], query: &Query, counts: impl Fn(Term) -> bool) -> (Evidence, u32) {
    let documents = logs.iter().fold(0_u32, |sum, log| sum.saturating_add(log.documents));
    let frequency = |place: usize| {
        let of_log = |log: &&Counted| u64::from(log.frequencies.get(place).copied().unwrap_or_default());
        logs.iter().map(of_log).sum::<u64>()
    };
    // If one form of a word is no evidence, the word is none.
    let forms = || query.terms().iter().zip(query.words());
    let idle: HashSet<usize> = forms().filter(|(term, _)| !counts(**term)).map(|(_, word)| *word).collect();
    let bits: Vec<Option<(usize, f64)>> = query
        .words()
        .iter()
        .enumerate()
        .map(|(place, word)| {
            let information = || (f64::from(documents) / frequency(place) as f64).log2();
            (!idle.contains(word)).then(|| (*word, information()))
        })
        .collect();
    let mut evidence = Evidence::default();
    let mut evident: Vec<(usize, f64)> = Vec::new();
    for log in logs {
        for combination in &log.combinations {
            evident.clear();
            let has = |at: &usize| combination >> at & 1 == 1;
            for at in (0..log.chosen.len()).filter(has) {
                let Some((word, bits)) = log.chosen.get(at).and_then(|place| *bits.get(*place)?) else { continue };
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

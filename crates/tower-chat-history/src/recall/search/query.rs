//! The subject of a search.

use std::collections::HashSet;

use tower_chat_history_core::{Message, Role};

use crate::recall::{
    analyzer::{Analyzer, Term},
    gate::asks,
    passage::{ends, text_of},
};

/// The most bytes that are read of a text, from each of its ends.
const MAX_BYTES: usize = 32 << 10;

/// The terms of an input, and whether it asks something.
///
/// `Debug` shows numbers only.
#[derive(Clone, PartialEq, Eq)]
pub struct Query {
    /// In ascending order, without repetitions.
    terms: Vec<Term>,
    /// For each term, the number of the word that it is a form of. With several languages, a word has several.
    words: Vec<usize>,
    asks: bool,
}

impl Query {
    /// The most words of a query. Of an input with more, those at its beginning and at its end are used, half each.
    pub const MAX_WORDS: usize = 256;

    /// Creates the query for a text.
    #[must_use]
    pub fn new(analyzer: &Analyzer, text: &str) -> Self {
        Self::of_texts(analyzer, &[text])
    }

    /// Creates the query for the input of a turn: the texts of its user messages.
    #[must_use]
    pub fn of_input(analyzer: &Analyzer, input: &[Message]) -> Self {
        let users = input.iter().filter(|message| *message.role() == Role::User);
        let texts: Vec<String> = users.map(text_of).collect();
        Self::of_texts(analyzer, &texts)
    }

    fn of_texts(analyzer: &Analyzer, texts: &[impl AsRef<str>]) -> Self {
        let texts = texts.iter().flat_map(|text| {
            let (head, tail) = ends(text.as_ref(), MAX_BYTES);
            [head, tail]
        });
        let mut words: Vec<Vec<Term>> = texts.clone().flat_map(|text| analyzer.words(text)).collect();
        let mut seen = HashSet::new();
        words.retain(|forms| seen.insert(forms.clone()));
        if words.len() > Self::MAX_WORDS {
            let half = Self::MAX_WORDS / 2;
            words.drain(half..words.len() - half);
        }
        let mut terms: Vec<(Term, usize)> = Vec::new();
        for (word, forms) in words.into_iter().enumerate() {
            terms.extend(forms.into_iter().map(|term| (term, word)));
        }
        terms.sort_unstable();
        terms.dedup_by_key(|(term, _)| *term);
        let (terms, words) = terms.into_iter().unzip();
        Self { terms, words, asks: texts.into_iter().any(asks) }
    }

    /// Returns `true` if there is nothing to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns `true` if a term is one of these.
    pub(crate) fn any(&self, is: impl Fn(Term) -> bool) -> bool {
        self.terms.iter().any(|term| is(*term))
    }

    pub(crate) fn terms(&self) -> &[Term] {
        &self.terms
    }

    pub(super) fn words(&self) -> &[usize] {
        &self.words
    }

    pub(crate) const fn asks(&self) -> bool {
        self.asks
    }
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query").field("terms", &self.terms.len()).field("asks", &self.asks).finish()
    }
}

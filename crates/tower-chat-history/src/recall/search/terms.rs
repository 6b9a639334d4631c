//! The terms that a search compares: those of a query, and those of the passages of a log.

use std::{collections::HashSet, fmt};

use tower_chat_history_core::{Exchange, Message, Recorded, Role, Seq};

use crate::recall::{
    analyzer::{Analyzer, Term},
    gate::asks,
    passage::{Passage, Passages, ends, text_of},
};

/// The most bytes that are read of a text, from each of its ends.
const MAX_BYTES: usize = 32 << 10;

/// The terms of an input, and whether it asks something.
///
/// `Debug` shows numbers only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// In ascending order, without repetitions.
    terms: Vec<Term>,
    /// For each term, the number of the word that it is a form of. With several languages, a word has several.
    words: Vec<usize>,
    asks: bool,
}

impl Query {
    /// The most words of a query. Of an input with more, those at its beginning and at its end are used, half each.
    pub(crate) const MAX_WORDS: usize = 256;

    /// Creates the query for a text.
    pub(crate) fn new(analyzer: &Analyzer, text: &str) -> Self {
        Self::of_texts(analyzer, &[text])
    }

    /// Creates the query for the input of a turn: the texts of its user messages.
    pub(crate) fn of_input(analyzer: &Analyzer, input: &[Message]) -> Self {
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
    pub(crate) fn is_empty(&self) -> bool {
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

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("terms", &self.terms.len()).field("asks", &self.asks).finish()
    }
}

/// The terms of exchanges, in the order of the log: what a [search](crate::recall::Search) reads of them.
///
/// `Debug` shows the number of exchanges.
#[derive(Clone)]
pub struct LogTerms {
    analyzer: Analyzer,
    exchanges: Vec<ExchangeTerms>,
}

/// The terms of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeTerms {
    pub(crate) seq: Seq,
    pub(crate) documents: Vec<Document>,
}

/// A passage, by its terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The message, by its place in its exchange.
    pub(crate) message: u32,
    /// In ascending order, with repetitions.
    pub(crate) terms: Box<[Term]>,
}

impl LogTerms {
    /// Analyzes exchanges, which are in the order of the log.
    #[must_use]
    pub fn of(analyzer: &Analyzer, exchanges: &[Recorded]) -> Self {
        let exchanges = exchanges.iter().map(|recorded| ExchangeTerms::of(analyzer, recorded)).collect();
        Self { analyzer: analyzer.clone(), exchanges }
    }

    pub(super) const fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    pub(super) fn exchanges(&self) -> &[ExchangeTerms] {
        &self.exchanges
    }
}

impl ExchangeTerms {
    fn of(analyzer: &Analyzer, recorded: &Recorded) -> Self {
        let exchange = &recorded.exchange;
        let passages = Passages::of(exchange).flatten();
        let documents = passages.map(|passage| Document::of(analyzer, exchange, &passage)).collect();
        Self { seq: recorded.seq, documents }
    }

    /// Returns an estimate of the memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let of_terms: usize = self.documents.iter().map(|document| size_of_val(&*document.terms)).sum();
        size_of::<Self>() + size_of_val(&*self.documents) + of_terms
    }
}

impl Document {
    /// Analyzes a passage of an exchange.
    pub(crate) fn of(analyzer: &Analyzer, exchange: &Exchange, passage: &Passage) -> Self {
        let mut terms = passage.terms(exchange, analyzer);
        terms.sort_unstable();
        Self { message: passage.message, terms: terms.into() }
    }
}

impl fmt::Debug for LogTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTerms").field("exchanges", &self.exchanges.len()).finish()
    }
}

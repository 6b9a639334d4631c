//! The terms of a log's passages.

use tower_chat_history_core::{Exchange, Recorded, Seq};

use crate::recall::{
    analyzer::{Analyzer, Term},
    passage::{Passage, Passages},
};

/// The terms of exchanges, in the order of the log: what a [search](crate::recall::Search) reads of them.
///
/// `Debug` shows the number of exchanges.
#[derive(Clone, PartialEq, Eq)]
pub struct LogTerms(Vec<ExchangeTerms>);

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
        Self(exchanges.iter().map(|recorded| ExchangeTerms::of(analyzer, recorded)).collect())
    }

    pub(super) fn exchanges(&self) -> &[ExchangeTerms] {
        &self.0
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

impl std::fmt::Debug for LogTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogTerms").field("exchanges", &self.0.len()).finish()
    }
}

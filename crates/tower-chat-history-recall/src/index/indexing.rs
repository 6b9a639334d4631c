//! Indexing of exchanges, one at a time.

use std::ops::Range;

use tower_chat_history_core::{Recorded, Seq};

use super::{
    documents::{Document, Documents},
    part::IndexPart,
    postings::{Posting, sort, table},
};
use crate::{
    analyzer::{Analyzer, Term},
    passage::Passage,
};

/// A block in the making, so that a caller can pause between its exchanges.
#[derive(Debug)]
pub(crate) struct Indexing<'a> {
    analyzer: &'a Analyzer,
    end: Seq,
    documents: Documents,
    postings: Vec<(Term, Posting)>,
}

impl<'a> Indexing<'a> {
    /// Begins the block of a range.
    pub(crate) fn new(analyzer: &'a Analyzer, range: Range<Seq>) -> Self {
        Self { analyzer, end: range.end, documents: Documents::new(range.start), postings: Vec::new() }
    }

    /// Adds the next exchange. One that is not in the range, or not in order, is ignored.
    pub(crate) fn push(&mut self, Recorded { seq, exchange, .. }: &Recorded) {
        if *seq < self.documents.end() || *seq >= self.end {
            return;
        }
        self.documents.skip_to(*seq);
        let base = self.documents.len();
        let (passages, postings) = (Passage::of(exchange), &mut self.postings);
        self.documents.push(passages.iter().zip(base..).map(|(passage, document)| {
            let mut found = passage.terms(exchange, self.analyzer);
            let length = u32::try_from(found.len()).unwrap_or(u32::MAX);
            found.sort_unstable();
            for same in found.chunk_by(Term::eq) {
                let posting = Posting { document, frequency: u32::try_from(same.len()).unwrap_or(u32::MAX) };
                postings.push((same[0], posting));
            }
            Document { message: passage.message, length }
        }));
    }

    /// Returns the block. Positions without an exchange have no documents.
    pub(crate) fn finish(mut self) -> IndexPart {
        self.documents.skip_to(self.end);
        sort(&mut self.postings);
        IndexPart::of_table(self.documents, table(&self.postings))
    }
}
